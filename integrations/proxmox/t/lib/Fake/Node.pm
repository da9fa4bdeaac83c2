# A node in memory in the place of Gantry::Proxmox::Machine: kernel, open-iscsi, multipathd and udev.
# SPDX-License-Identifier: AGPL-3.0-or-later
#
# Its sessions are real ones (Fake::Session), so that a LUN is what the array says over the wire. Like
# Linux it keeps the disk of a LUN that was unmapped, with the identifier that it told last.
package Fake::Node;

use strict;
use warnings;

use Fake::Session;

# name, initiator; record: a code reference that is told every side effect.
sub new {
    my ($class, %o) = @_;
    return bless({
        name => $o{name}, initiator => $o{initiator}, record => $o{record}, multipathd => 1, records => {}, sessions => {},
        disks => {}, maps => {}, links => {}, marks => {}, busy => {}, next => 1, letter => 'a', stuck => {},
    }, $class);
}

sub link_folder { return '/dev/gantry' }
sub node_name { my ($self) = @_; return $self->{name} }
sub note { my ($self, @words) = @_; $self->{record}->("$self->{name}: @words") if $self->{record}; return }

# Loses everything that a boot loses.
sub reboot {
    my ($self) = @_;
    close($_->{session}->{socket}) for values %{ $self->{sessions} };
    $self->{$_} = {} for qw(sessions disks maps links marks busy);
    return;
}

sub run {
    my ($self, @words) = @_;
    $self->note('run', map { $words[-2] eq '--value' && $words[-3] =~ m/password/ && $_ eq $words[-1] ? '***' : $_ } @words);
    my $program = shift @words;
    my $method = "run_$program";
    return $self->$method(@words);
}

sub run_blockdev { return (0, '') }
sub run_dmsetup { return (0, '') }

sub run_iscsiadm {
    my ($self, @words) = @_;
    my $line = " @words ";
    my ($portal) = $line =~ m/ --portal (\S+) /;
    if ($line =~ m/ --op new /) {
        $self->{records}->{$portal} //= {};
    } elsif ($line =~ m/ --op update --name (\S+) --value (.*) $/) {
        $self->{records}->{$portal}->{$1} = $2;
    } elsif ($line =~ m/ --login /) {
        my ($target) = $line =~ m/ --targetname (\S+) /;
        return $self->log_in($portal, $target);
    } elsif ($line =~ m/ --sid (\d+) --logout /) {
        my $session = delete $self->{sessions}->{$1} // return (21, 'no such session');
        close($session->{session}->{socket});
    }
    return (0, '');
}

sub log_in {
    my ($self, $portal, $target) = @_;
    return (15, 'session exists') if grep { $_->{portal} eq $portal } values %{ $self->{sessions} };
    my $record = $self->{records}->{$portal};
    return (1, 'scans by itself') if ($record->{'node.session.scan'} // '') ne 'manual';
    my $chap = $record->{'node.session.auth.authmethod'} eq 'CHAP'
        ? { user => $record->{'node.session.auth.username'}, secret => $record->{'node.session.auth.password'} } : undef;
    my $session = eval { Fake::Session->new(portal => $portal, target => $target, initiator => $self->{initiator}, chap => $chap) }
        // return (8, "initiator reported error: $@");
    $self->{sessions}->{ $self->{next}++ } = { portal => $portal, target => $target, session => $session };
    return (0, '');
}

sub run_multipathd {
    my ($self, @words) = @_;
    return (1, 'error receiving packet') if !$self->{multipathd};
    return (0, 'pid 1 running') if "@words" eq 'show daemon';
    if ("@words[0, 1]" eq 'add path') {
        my ($disk) = grep { $_->{name} eq $words[2] } values %{ $self->{disks} };
        my $node = $self->map_node($disk->{naa}) // 'dm-' . $self->{next}++;
        $self->{maps}->{$node}->{naa} = $disk->{naa};
        $self->{maps}->{$node}->{slaves}->{ $disk->{name} } = 1;
    }
    return (0, 'ok');
}

sub map_node {
    my ($self, $naa) = @_;
    return (grep { $self->{maps}->{$_}->{naa} eq $naa } keys %{ $self->{maps} })[0];
}

sub run_multipath {
    my ($self, @words) = @_;
    return (0, '') if $words[0] ne '-f';
    my ($node) = grep { 'mpath-' . $_ eq $words[1] } keys %{ $self->{maps} };
    return (1, 'map in use') if $self->{busy}->{"/dev/$node"};
    delete $self->{maps}->{$node};
    return (0, '');
}

# sysfs

sub read_file {
    my ($self, $path) = @_;
    return "InitiatorName=$self->{initiator}" if $path eq '/etc/iscsi/initiatorname.iscsi';
    if ($path =~ m{^/sys/class/iscsi_session/session(\d+)/targetname$}) { return $self->{sessions}->{$1}->{target} }
    if ($path =~ m{^/sys/class/iscsi_session/session(\d+)/state$}) { return $self->{sessions}->{$1} ? 'LOGGED_IN' : undef }
    if ($path =~ m{^/sys/class/iscsi_connection/connection(\d+):0/persistent_(address|port)$}) {
        my ($address, $port) = split(m/:/, $self->{sessions}->{$1}->{portal});
        return $2 eq 'port' ? $port : $address;
    }
    if ($path =~ m{^/sys/class/scsi_device/([\d:]+)/device/wwid$}) { return $self->{disks}->{$1}->{naa} }
    if ($path =~ m{^/sys/block/(dm-\d+)/dm/(uuid|name)$}) {
        my $map = $self->{maps}->{$1} // return undef;
        return $2 eq 'name' ? "mpath-$1" : 'mpath-3' . ($map->{naa} =~ s/^naa\.//r);
    }
    return Gantry::Proxmox::Machine->read_file($path);
}

sub write_file {
    my ($self, $path, $text) = @_;
    $self->note('write', $text, '>', $path);
    if ($path =~ m{^/sys/class/scsi_host/host(\d+)/scan$}) {
        my ($sid, $lun) = ($1, (split(m/ /, $text))[2]);
        my $address = "$sid:0:0:$lun";
        return if $self->{disks}->{$address};
        my $naa = $self->{sessions}->{$sid}->{session}->naa($lun & 0x3fff) // return;
        $self->{disks}->{$address} = { naa => $naa, name => 'sd' . $self->{letter}++, sid => $sid, lun => $lun & 0x3fff };
    } elsif ($path =~ m{^/sys/class/scsi_device/([\d:]+)/device/(delete|rescan)$}) {
        my ($address, $what) = ($1, $2);
        my $disk = $self->{disks}->{$address} // die "$path: no such file\n";
        if ($what eq 'delete') { delete $self->{disks}->{$address}; return }
        my $naa = $self->{sessions}->{ $disk->{sid} }->{session}->naa($disk->{lun});
        $disk->{naa} = $naa if defined($naa);
        $disk->{size} = $self->{sessions}->{ $disk->{sid} }->{session}->size($disk->{lun}) if defined($naa);
    } else {
        die "a write to $path is not expected\n";
    }
    return;
}

sub list_folder {
    my ($self, $path) = @_;
    my @names;
    if ($path eq '/sys/class/iscsi_session') {
        @names = map { "session$_" } keys %{ $self->{sessions} };
    } elsif ($path eq '/sys/class/scsi_device') {
        @names = keys %{ $self->{disks} };
    } elsif ($path eq '/sys/block') {
        @names = ('sda0', keys %{ $self->{maps} });
    } elsif ($path =~ m{^/sys/class/scsi_device/([\d:]+)/device/block$}) {
        @names = ($self->{disks}->{$1}->{name});
    } elsif ($path =~ m{^/sys/block/(dm-\d+)/slaves$}) {
        @names = keys %{ $self->{maps}->{$1}->{slaves} // {} };
    } elsif ($path =~ m{^/sys/block/(sd\w+)/holders$}) {
        @names = grep { $self->{maps}->{$_}->{slaves}->{$1} } keys %{ $self->{maps} };
    } else {
        die "a look into $path is not expected\n";
    }
    @names = sort @names;
    return @names;
}

sub read_link {
    my ($self, $path) = @_;
    return "../../devices/platform/host$1/session$1/iscsi_session/session$1" if $path =~ m{^/sys/class/iscsi_session/session(\d+)$};
    if ($path =~ m{^/dev/disk/by-id/(dm-uuid-mpath-3|wwn-0x)([0-9a-f]{32})$}) {
        my ($kind, $naa) = ($1, "naa.$2");
        my $node = $kind =~ m/^dm/ ? $self->map_node($naa) : (map { $_->{name} } grep { $_->{naa} eq $naa } values %{ $self->{disks} })[0];
        return defined($node) ? "../../$node" : undef;
    }
    return $self->{links}->{$path};
}

sub is_device {
    my ($self, $path) = @_;
    my $link = $self->{links}->{$path} // return 0;
    return defined($self->read_link($link)) ? 1 : 0;
}

sub put_link { my ($self, $target, $path) = @_; $self->note('link', $path, '->', $target); $self->{links}->{$path} = $target; return }
sub remove_link { my ($self, $path) = @_; delete $self->{links}->{$path}; return }
sub has_mark { my ($self, $name) = @_; return $self->{marks}->{$name} }
sub put_mark { my ($self, $name) = @_; $self->{marks}->{$name} = 1; return }
sub is_busy { my ($self, $device) = @_; return $self->{busy}->{$device} ? 1 : 0 }
sub locked { my ($self, $code) = @_; return $code->() }
sub now { my ($self) = @_; return $self->{time} //= 0 }
sub pause { my ($self, $seconds) = @_; $self->{time} = $self->now() + $seconds; return }

# What a guest does to an active volume: (session, LUN) of a path of its device.
sub io {
    my ($self, $path) = @_;
    my $link = $self->{links}->{$path} // die "$path is not active on $self->{name}\n";
    my $naa = Gantry::Proxmox::Initiator::naa_of_link($link);
    my ($disk) = grep { $_->{naa} eq $naa } map { $self->{disks}->{$_} } sort keys %{ $self->{disks} };
    return ($self->{sessions}->{ $disk->{sid} }->{session}, $disk->{lun}, $disk);
}

sub copy_out {
    my ($self, $path, $handle) = @_;
    my ($session, $lun) = $self->io($path);
    print {$handle} $session->read_block($lun, $_) for 0 .. $session->size($lun) / 512 - 1;
    return;
}

sub copy_in {
    my ($self, $handle, $path) = @_;
    my ($session, $lun) = $self->io($path);
    my $lba = 0;
    while (read($handle, my $block, 512)) {
        die "write\n" if $session->write_block($lun, $lba++, $block) != 0;
    }
    return;
}

1;
