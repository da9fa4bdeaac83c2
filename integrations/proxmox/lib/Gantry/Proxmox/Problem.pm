# Refusals of the array (RFC 9457) as exceptions: text for people, a type for programs.
# SPDX-License-Identifier: AGPL-3.0-or-later
package Gantry::Proxmox::Problem;

use strict;
use warnings;

use Scalar::Util qw(blessed);

use overload
    '""' => sub { return $_[0]->{detail} . "\n" },
    'bool' => sub { return 1 },
    fallback => 1;

use constant TYPE_PREFIX => 'urn:gantry:problem:';

# type: a name of the table in docs/rest.md, or 'unreachable' or 'foreign-answer'. status: the HTTP
# status, 0 if nothing was answered.
sub throw {
    my ($class, %fields) = @_;
    die bless({%fields}, $class);
}

# Whether an error is a refusal of one of these types.
sub is {
    my ($error, @types) = @_;
    # No eval here: $error may be an alias of $@, which one would clear.
    return 0 if !blessed($error) || !$error->isa(__PACKAGE__);
    my $type = $error->{type};
    return scalar(grep { $_ eq $type } @types) ? 1 : 0;
}

1;
