# An array, its storage as Proxmox VE configures it, and nodes, for tests. Writes a transcript.
# SPDX-License-Identifier: AGPL-3.0-or-later
package Fake::Lab;

use strict;
use warnings;

use File::Temp qw(tempdir);
use JSON;

use Fake::Array;
use Fake::Node;
use Fake::PVE;

my $plugin = 'PVE::Storage::Custom::GantryPlugin';

# pool_size: as gantry writes it. Further options: properties of the storage.
sub new {
    my ($class, $pool_size, %properties) = @_;
    my $self = bless({ array => Fake::Array->start($pool_size), properties => \%properties, nodes => {}, secrets => tempdir(CLEANUP => 1) }, $class);
    $PVE::Storage::Custom::GantryPlugin::secret_folder = $self->{secrets};
    my $folder = $ENV{GANTRY_TRANSCRIPTS};
    if (defined($folder)) {
        my $name = $0 =~ s{.*/}{}r =~ s/\.t\z//r;
        open($self->{transcript}, '>>', "$folder/$name.txt") or die "$folder/$name.txt: $!\n";
        $self->{transcript}->autoflush(1);
    }
    $Gantry::Proxmox::Array::trace = sub {
        my ($method, $path, $body, $status) = @_;
        my $text = defined($body) ? ' ' . JSON->new->canonical->encode({ %$body, $body->{chap} ? (chap => '***') : () }) : '';
        $self->note("  $method $path$text -> $status");
    };
    ($self->{token}, $self->{token_id}) = $self->{array}->token('operator');
    $self->{cfg} = { ids => {} };
    $self->add('san', $self->{token});
    $self->node('pve1');
    return $self;
}

sub note {
    my ($self, $line) = @_;
    print { $self->{transcript} } "$line\n" if $self->{transcript};
    push @{ $self->{lines} }, $line;
    return;
}

# Adds a storage as 'pvesm add' does: parsed from storage.cfg, then the plugin's hook.
sub add {
    my ($self, $storeid, $token, %more) = @_;
    my %properties = (%{ $self->{properties} }, %more);
    my $text = "gantry: $storeid\n\tgantry-url " . ($properties{'gantry-url'} // $self->{array}->url()) . "\n\tgantry-pool p\n";
    delete $properties{'gantry-url'};
    $text .= "\t$_ $properties{$_}\n" for sort keys %properties;
    my $scfg = PVE::Storage::Plugin->parse_config('storage.cfg', "$text\n")->{ids}->{$storeid};
    $plugin->on_add_hook($storeid, $scfg, password => $token);
    # What 'pvesm add' writes is read again by every call.
    my $written = PVE::Storage::Plugin->write_config('storage.cfg', { ids => { $storeid => $scfg }, order => { $storeid => 1 } });
    $self->{cfg}->{ids}->{$storeid} = PVE::Storage::Plugin->parse_config('storage.cfg', $written)->{ids}->{$storeid};
    return $scfg;
}

# From now on calls are made on that node.
sub node {
    my ($self, $name) = @_;
    $self->{nodes}->{$name} //= Fake::Node->new(
        name => $name, initiator => "iqn.1993-08.org.debian:01:$name", record => sub { $self->note("  $_[0]") });
    return $PVE::Storage::Custom::GantryPlugin::machine = $self->{nodes}->{$name};
}

# Calls a function of PVE::Storage with the configuration, and records it.
sub call {
    my ($self, $function, @words) = @_;
    my $node = $PVE::Storage::Custom::GantryPlugin::machine->node_name();
    $self->note("$node: PVE::Storage::$function(" . join(', ', map { !defined ? 'undef' : ref ? encode_json($_) : $_ } @words) . ')');
    my $code = PVE::Storage->can($function) // die "PVE::Storage has no $function\n";
    my @result = eval { $code->($self->{cfg}, @words) };
    my $error = $@;
    $self->note(" dies: $error") if $error;
    die $error if $error;
    $self->note(' = ' . (eval { encode_json(\@result) } // "@result"));
    return wantarray ? @result : $result[0];
}

# The error of a call that must fail; undef if it did not.
sub fails {
    my ($self, $function, @words) = @_;
    return eval { $self->call($function, @words); 1 } ? undef : "$@";
}

sub owner { my ($self, $storeid) = @_; return $self->{cfg}->{ids}->{ $storeid // 'san' }->{'gantry-owner'} }

# What the array has: volumes by name.
sub volumes { my ($self) = @_; return { map { $_->{name} => $_ } @{ $self->{array}->json('volume', 'list') } } }

sub path { my ($self, $volid, $snap) = @_; return (PVE::Storage::path($self->{cfg}, $volid, $snap))[0] }

# What a guest of the current node reads and writes in the first block.
sub put { my ($self, $volid, $text) = @_; my ($s, $lun) = $PVE::Storage::Custom::GantryPlugin::machine->io($self->path($volid)); return $s->write_block($lun, 0, $text) }

sub get {
    my ($self, $volid, $snap) = @_;
    my ($session, $lun) = $PVE::Storage::Custom::GantryPlugin::machine->io($self->path($volid, $snap));
    return $session->read_block($lun, 0) =~ s/\0+\z//r;
}

1;
