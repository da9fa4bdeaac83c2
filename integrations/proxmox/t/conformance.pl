# Calls PVE::Storage for the conformance driver of tests/platforms: a step per line of standard input, an answer
# in JSON per line of standard output. The first line tells where the array is.
# SPDX-License-Identifier: AGPL-3.0-or-later
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib", "$Bin/../lib";
use IO::Select;
use JSON;

use Fake::Lab;

my $gib = 1 << 30;
my $lab = Fake::Lab->new('4G');
my $node = $lab->node('pve1');
my ($disk, $clone);

# Each takes the words behind the step's name.
my %steps = (
    create => sub { $disk = $lab->call('vdisk_alloc', 'san', 100, 'raw', undef, $gib >> 10) },
    attach => sub { $lab->call('activate_volumes', [$disk]) },
    write => sub { $lab->put($disk, "content $_[0]") },
    read => sub { my $found = $lab->get($disk); $found eq "content $_[0]" or die "'$found' was read\n" },
    snapshot => sub { $lab->call('volume_snapshot', $disk, 's') },
    clone => sub { $clone = $lab->call('vdisk_clone', $disk, 101, 's') },
    resize => sub { $lab->call('volume_resize', $disk, 2 * $gib, 1) },
    detach => sub { $lab->call('deactivate_volumes', [$disk]) },
    revert => sub { $lab->call('volume_snapshot_rollback', $disk, 's') },
    delete => sub {
        $lab->call('vdisk_free', $clone);
        $lab->call('volume_snapshot_delete', $disk, 's');
        $lab->call('vdisk_free', $disk);
    },
);

STDOUT->autoflush(1);
print encode_json({ url => $lab->{array}->url(), token => $lab->{token} }), "\n";
my $steps = IO::Select->new(\*STDIN);
while (1) {
    # The array drops sessions that do not answer its pings, and this node answers only while it asks.
    while (!$steps->can_read(2)) {
        $_->{session}->command(0, "\0" x 6, 0) for values %{ $node->{sessions} };
    }
    my $line = readline(STDIN) // last;
    chomp($line);
    my ($name, @words) = split(m/ /, $line);
    my $step = $steps{$name} // sub { die "there is no step '$name'\n" };
    my $error = eval { $step->(@words); 1 } ? undef : "$@";
    print encode_json({ error => $error }), "\n";
}
