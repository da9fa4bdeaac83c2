# A gantryd for tests, with a pool 'p' and a token of the role operator.
# SPDX-License-Identifier: AGPL-3.0-or-later
package Fake::Array;

use strict;
use warnings;

use File::Temp qw(tempdir);
use IO::Socket::INET;
use JSON qw(decode_json);
use Time::HiRes qw(sleep);

# pool_size: as gantry writes it. Data lies in memory where there is room.
sub start {
    my ($class, $pool_size) = @_;
    my $bin = $ENV{GANTRY_BIN_DIR} // die "GANTRY_BIN_DIR names the folder with gantryd and gantry: 'cargo xtask test --integrations' sets it\n";
    my $memory = (`df -Pk /dev/shm` =~ m/\s([0-9]+)\s+[0-9]+%/) ? $1 : 0;
    my $folder = tempdir('gantry-proxmox-XXXXXX', DIR => $memory > 4 << 20 ? '/dev/shm' : '/tmp', CLEANUP => 1);
    my $self = bless({ bin => $bin, folder => $folder, owner => $$, portals => [map { free_address() } 1 .. 2], http => free_address(), https => free_address() }, $class);
    $self->resume();
    $self->gantry('pool', 'create', 'p', '--device', "file:$folder/p.img", '--size', $pool_size);
    return $self;
}

sub free_address {
    my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => 0) or die "no free port: $!\n";
    return '127.0.0.1:' . $socket->sockport();
}

sub url { my ($self) = @_; return "http://$self->{http}" }

sub resume {
    my ($self) = @_;
    my $pid = fork() // die "fork: $!\n";
    if (!$pid) {
        open(STDOUT, '>>', "$self->{folder}/log") and open(STDERR, '>&', \*STDOUT) or die "log: $!\n";
        my @portals = map { ('--iscsi', $_) } @{ $self->{portals} };
        exec("$self->{bin}/gantryd", '--data', "$self->{folder}/data", @portals, '--http', $self->{http}, '--https', $self->{https}, '--memory', '256M') or die "exec: $!\n";
    }
    $self->{pid} = $pid;
    for (1 .. 1200) {
        return if IO::Socket::INET->new(PeerAddr => $self->{http});
        die 'gantryd ended: ' . `cat $self->{folder}/log` if waitpid($pid, 1) == $pid;
        sleep(0.05);
    }
    die "gantryd does not answer\n";
}

sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} // return;
    kill('INT', $pid);
    waitpid($pid, 0);
    return;
}

# Runs the command line over the daemon's socket, and returns what it printed.
sub gantry {
    my ($self, @words) = @_;
    open(my $handle, '-|', "$self->{bin}/gantry", '--data', "$self->{folder}/data", @words) or die "gantry: $!\n";
    local $/ = undef;
    my $text = readline($handle);
    close($handle) or die "gantry @words: status $?\n";
    return $text;
}

sub json { my ($self, @words) = @_; return decode_json($self->gantry('--json', @words)) }

# A new token's secret, and its identifier.
sub token {
    my ($self, $role) = @_;
    my $made = $self->json('token', 'create', 't' . int(rand(1e9)), '--role', $role);
    return ($made->{secret}, $made->{id});
}

sub DESTROY {
    my ($self) = @_;
    local ($?, $!, $@);
    $self->stop() if $self->{owner} == $$;
    return;
}

1;
