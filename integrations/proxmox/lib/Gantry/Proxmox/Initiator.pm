# Attaches LUNs through open-iscsi and dm-multipath, and removes exactly their devices.
# SPDX-License-Identifier: AGPL-3.0-or-later
#
# Linux knows a LUN by its number, and keeps a disk whose LUN became another volume. So a device counts
# only if its NAA identifier (VPD page 83h, which sysfs shows as 'wwid') is the volume's: before it is
# used, and before it is removed. Sessions are logged in with node.session.scan=manual, so that no disk
# appears that nobody asked for. Disks of other arrays and targets are never asked, scanned or removed.
package Gantry::Proxmox::Initiator;

use strict;
use warnings;

use constant {
    # Seconds that disks, maps and links may take to appear, and between two looks.
    ATTACH_SECONDS => 20,
    MAP_SECONDS => 30,
    # Seconds that programs which only look, such as udev's, may hold a map open.
    REMOVAL_SECONDS => 15,
    # Seconds that the kernel keeps the commands of a lost session before multipath gets them for another path.
    REPLACEMENT_SECONDS => 5,
    LINK_SECONDS => 10,
    LOOK_SECONDS => 0.1,
    # iscsiadm's exit status for a session that is there (ISCSI_ERR_SESS_EXISTS).
    SESSION_EXISTS => 15,
    # Address method bits of LUN numbers from 256 (SAM-5 4.7.7.3); Linux keeps them in its number.
    FLAT_SPACE => 0x4000,
    # Largest number that the peripheral method addresses (SAM-5 4.7.7.2).
    PERIPHERAL_MAX => 255,

    INITIATOR_NAME => '/etc/iscsi/initiatorname.iscsi',
    SESSIONS => '/sys/class/iscsi_session',
    CONNECTIONS => '/sys/class/iscsi_connection',
    DISKS => '/sys/class/scsi_device',
    HOSTS => '/sys/class/scsi_host',
    BLOCK => '/sys/block',
    BY_ID => '/dev/disk/by-id',
    # UUID of a multipath map: this and the identifier; '3' stands for NAA.
    MAP_PREFIX => 'mpath-3',
};

sub new { my ($class, $machine) = @_; return bless({ machine => $machine }, $class) }

# This node's initiator name.
sub name {
    my ($self) = @_;
    my $text = $self->{machine}->read_file(INITIATOR_NAME) // '';
    return $1 if $text =~ m/^\s*InitiatorName=(\S+)/m;
    die INITIATOR_NAME . " names no initiator: install open-iscsi on this node\n";
}

# The link by which udev names a volume's device: by its identifier, so that it never leads elsewhere.
sub device_link {
    my ($naa, $multipath) = @_;
    my $digits = $naa =~ s/\Anaa\.//r;
    return $multipath ? BY_ID . '/dm-uuid-' . MAP_PREFIX . $digits : BY_ID . "/wwn-0x$digits";
}

# The identifier in such a link; undef if it is none.
sub naa_of_link {
    my ($link) = @_;
    return undef if !defined($link) || $link !~ m{/(?:dm-uuid-mpath-3|wwn-0x)([0-9a-f]{32})\z};
    return "naa.$1";
}

# Logs in, finds the LUN's disks, makes their map, and returns the link to the device. Takes a hash:
# target, portals (list), lun, naa, multipath, chap (undef, or user and secret).
sub attach {
    my ($self, $volume) = @_;
    if ($volume->{multipath} && !$self->multipath_runs()) {
        die "multipathd does not run on this node: 'apt install multipath-tools', or 'pvesm set STORAGE --gantry-multipath 0' for one path\n";
    }
    $self->log_in($volume);
    my @paths = $self->find_paths($volume);
    my $node = $volume->{multipath} ? $self->assemble($volume->{naa}, \@paths) : $paths[0]->{name};
    return $self->await_link(device_link($volume->{naa}, $volume->{multipath}), $volume->{multipath} ? [$node] : [map { $_->{name} } @paths]);
}

# Waits until udev has made the link, and that it leads to one of these devices.
sub await_link {
    my ($self, $link, $nodes) = @_;
    my $found = $self->await(LINK_SECONDS, sub {
        my $target = ($self->{machine}->read_link($link) // '') =~ s{.*/}{}r;
        return scalar(grep { $_ eq $target } @$nodes) ? $link : undef;
    });
    return $found // die "udev made no link $link to " . join(' or ', @$nodes) . ' within ' . LINK_SECONDS . " s\n";
}

# What the code returns as soon as that is defined; undef after so many seconds.
sub await {
    my ($self, $seconds, $code) = @_;
    my $deadline = $self->{machine}->now() + $seconds;
    while (1) {
        my $found = $code->();
        return $found if defined($found) || $self->{machine}->now() >= $deadline;
        $self->{machine}->pause(LOOK_SECONDS);
    }
}

# Runs a program that must succeed; the error shows what it printed, and not its arguments.
sub must_run {
    my ($self, @words) = @_;
    my ($status, $output) = $self->{machine}->run(@words);
    die "$words[0] failed with status $status: " . ($output =~ s/\s+\z//r) . "\n" if $status != 0;
    return $output;
}

# Sessions

# Sessions with a target: hashes of name, and host, the number of its SCSI host.
sub sessions {
    my ($self, $target) = @_;
    my @found;
    for my $name ($self->{machine}->list_folder(SESSIONS)) {
        # A session may vanish between two looks.
        my $known = $self->{machine}->read_file(SESSIONS . "/$name/targetname") // next;
        next if $known ne $target;
        my $link = $self->{machine}->read_link(SESSIONS . "/$name") // next;
        push @found, { name => $name, host => $1 } if $link =~ m{/host([0-9]+)/};
    }
    return @found;
}

# Those that take commands. To scan one whose connection is lost would wait in the kernel until it is
# back or given up.
sub live_sessions {
    my ($self, $target) = @_;
    return grep { ($self->{machine}->read_file(SESSIONS . "/$_->{name}/state") // '') eq 'LOGGED_IN' } $self->sessions($target);
}

# Portals over which there is a session with a target.
sub connected {
    my ($self, $target) = @_;
    my %portals;
    for my $session ($self->sessions($target)) {
        my $connection = CONNECTIONS . '/connection' . ($session->{name} =~ s/\Asession//r) . ':0';
        my $address = $self->{machine}->read_file("$connection/persistent_address") // next;
        my $port = $self->{machine}->read_file("$connection/persistent_port") // next;
        $portals{ $address =~ m/:/ ? "[$address]:$port" : "$address:$port" } = 1;
    }
    return \%portals;
}

# Makes sure that there is a session over each portal, or over one of them without multipath. Portals
# that do not answer are left out as long as one does.
sub log_in {
    my ($self, $volume) = @_;
    my $connected = $self->connected($volume->{target});
    my $sessions = scalar(grep { $connected->{$_} } @{ $volume->{portals} });
    my @failures;
    for my $portal (grep { !$connected->{$_} } @{ $volume->{portals} }) {
        last if $sessions && !$volume->{multipath};
        if (eval { $self->log_in_to($volume, $portal); 1 }) {
            $sessions++;
        } else {
            push @failures, $@;
        }
    }
    die 'no portal of the target could be logged in to: ' . join('', @failures) if !$sessions;
    warn "some portals could not be logged in to: $_" for @failures;
    return;
}

sub log_in_to {
    my ($self, $volume, $portal) = @_;
    my @record = ('--mode', 'node', '--targetname', $volume->{target}, '--portal', $portal);
    eval {
        $self->must_run('iscsiadm', @record, '--op', 'new');
        for my $setting (settings($volume)) {
            $self->must_run('iscsiadm', @record, '--op', 'update', '--name', $setting->[0], '--value', $setting->[1]);
        }
        my ($status, $output) = $self->{machine}->run('iscsiadm', @record, '--login');
        die "iscsiadm --login failed with status $status: " . ($output =~ s/\s+\z//r) . "\n" if $status != 0 && $status != SESSION_EXISTS;
        1;
    } or die "portal $portal: $@";
    return;
}

# Settings of a node record: nothing appears or returns by itself, and who this node is.
sub settings {
    my ($volume) = @_;
    my @settings = (
        ['node.startup', 'manual'], ['node.session.scan', 'manual'], ['node.session.initial_login_retry_max', '2'],
    );
    # Without another path commands wait as long as open-iscsi lets them.
    push @settings, ['node.session.timeo.replacement_timeout', REPLACEMENT_SECONDS] if $volume->{multipath};
    my $chap = $volume->{chap} // return (@settings, ['node.session.auth.authmethod', 'None']);
    return (
        @settings, ['node.session.auth.authmethod', 'CHAP'],
        ['node.session.auth.username', $chap->{user}], ['node.session.auth.password', $chap->{secret}],
    );
}

# Logs out of the sessions of these disks that have no disk left; with the last session of a target go its
# records, which hold the CHAP secret.
sub log_out_idle {
    my ($self, @removed) = @_;
    my %hosts = map { $_->{host} => 1 } @removed;
    for my $name ($self->{machine}->list_folder(SESSIONS)) {
        my $link = $self->{machine}->read_link(SESSIONS . "/$name") // next;
        next if $link !~ m{/host([0-9]+)/};
        my $host = $1;
        next if !$hosts{$host} || grep { $_->{host} eq $host } $self->disks();
        my $target = $self->{machine}->read_file(SESSIONS . "/$name/targetname") // next;
        $self->must_run('iscsiadm', '--mode', 'session', '--sid', $name =~ s/\Asession//r, '--logout');
        next if $self->sessions($target);
        eval { $self->must_run('iscsiadm', '--mode', 'node', '--targetname', $target, '--op', 'delete'); 1 } or warn "node records stay: $@";
    }
    return;
}

# Disks

# All SCSI disks of the node: hashes of address (HOST:CHANNEL:TARGET:LUN), host, lun, name.
sub disks {
    my ($self) = @_;
    my @found;
    for my $address ($self->{machine}->list_folder(DISKS)) {
        next if $address !~ m/\A([0-9]+):[0-9]+:[0-9]+:([0-9]+)\z/;
        my ($host, $lun) = ($1, $2);
        push @found, map { { address => $address, host => $host, lun => $lun, name => $_ } }
            $self->{machine}->list_folder(DISKS . "/$address/device/block");
    }
    return @found;
}

# The NAA identifier that a disk told last; empty if it told none.
sub identity {
    my ($self, $disk) = @_;
    return lc($self->{machine}->read_file(attribute($disk, 'wwid')) // '');
}

sub disks_of {
    my ($self, $naa) = @_;
    return grep { $self->identity($_) eq $naa } $self->disks();
}

sub attribute { my ($disk, $name) = @_; return DISKS . "/$disk->{address}/device/$name" }

# The number by which Linux knows a LUN.
sub kernel_lun { my ($lun) = @_; return $lun > PERIPHERAL_MAX ? $lun | FLAT_SPACE : $lun }

sub disks_at {
    my ($self, $session, $lun) = @_;
    return grep { $_->{host} eq $session->{host} && $_->{lun} == kernel_lun($lun) } $self->disks();
}

# Scans for the LUN on each session, and returns the disks that are the volume.
sub find_paths {
    my ($self, $volume) = @_;
    my @sessions = $self->live_sessions($volume->{target});
    for my $session (@sessions) {
        $self->remove_stale($session, $volume);
        $self->{machine}->write_file(HOSTS . "/host$session->{host}/scan", '0 0 ' . kernel_lun($volume->{lun}));
    }
    my @paths;
    $self->await(ATTACH_SECONDS, sub {
        @paths = $self->verified_paths(\@sessions, $volume);
        return @paths >= @sessions ? 1 : undef;
    });
    if (!@paths) {
        die "no disk of $volume->{naa} appeared as LUN $volume->{lun} within " . ATTACH_SECONDS . " s: see 'gantry volume show' for who sees it\n";
    }
    warn scalar(@paths) . ' of ' . scalar(@sessions) . " sessions show $volume->{naa}\n" if @paths < @sessions;
    return @paths;
}

# Removes the disk of a session's LUN if it is another volume, and maps of other volumes that hold it,
# whatever it is now: udev may have had the kernel ask it again. What somebody uses stays, and the volume is
# not attached: no command may reach it through the old disk.
sub remove_stale {
    my ($self, $session, $volume) = @_;
    for my $disk ($self->disks_at($session, $volume->{lun})) {
        $self->remove_maps_above($disk, $volume->{naa});
        my $identity = $self->identity($disk);
        next if $identity eq $volume->{naa};
        warn "$disk->{name} is $identity at the LUN number of $volume->{naa}, and is removed\n";
        eval { $self->remove_disk($disk); 1 }
            or die "LUN $volume->{lun} is $disk->{name} on this node, which is another volume: $@";
    }
    return;
}

# Removes multipath maps that hold a disk and are not the volume's. It writes nothing.
sub remove_maps_above {
    my ($self, $disk, $naa) = @_;
    for my $node ($self->{machine}->list_folder(BLOCK . "/$disk->{name}/holders")) {
        my $uuid = $self->{machine}->read_file(BLOCK . "/$node/dm/uuid") // next;
        next if $uuid !~ m/\A\Q${\ MAP_PREFIX}\E([0-9a-f]{32})\z/ || "naa.$1" eq $naa;
        my $digits = $1;
        my $alias = $self->{machine}->read_file(BLOCK . "/$node/dm/name") // next;
        warn "$alias holds $disk->{name}, which is at the LUN number of $naa, and is removed\n";
        $self->remove_map({ node => $node, alias => $alias });
        $self->forget("naa.$digits");
    }
    return;
}

# Disks of the LUN that tell the volume's identifier when the kernel asks them anew.
sub verified_paths {
    my ($self, $sessions, $volume) = @_;
    my @paths;
    for my $disk (map { $self->disks_at($_, $volume->{lun}) } @$sessions) {
        next if $self->identity($disk) ne $volume->{naa};
        $self->{machine}->write_file(attribute($disk, 'rescan'), '1');
        my $now = $self->identity($disk);
        die "$disk->{name} was $volume->{naa} and is now $now: the LUN was given to another volume\n" if $now ne $volume->{naa};
        push @paths, $disk;
    }
    return @paths;
}

# Takes a disk away that nobody uses. It writes nothing: the disk may be another volume by now.
sub remove_disk {
    my ($self, $disk) = @_;
    die "$disk->{name} is in use on this node\n" if $self->{machine}->is_busy("/dev/$disk->{name}");
    $self->{machine}->write_file(attribute($disk, 'delete'), '1');
    return;
}

# Removes the map and the disks that have the identifier, and logs out of sessions without disks.
sub detach {
    my ($self, $naa) = @_;
    $self->disassemble($naa);
    my @disks = $self->disks_of($naa);
    for my $disk (@disks) {
        die "$disk->{name} is in use on this node\n" if $self->{machine}->is_busy("/dev/$disk->{name}");
        # Nobody has it open, so nothing is lost that could still be written; a path may be dead.
        my ($status) = $self->{machine}->run('blockdev', '--flushbufs', "/dev/$disk->{name}");
        warn "flushing $disk->{name} before its removal failed with status $status\n" if $status != 0;
        $self->remove_disk($disk);
    }
    $self->log_out_idle(@disks);
    return;
}

# Whether this node has a device of the volume.
sub has {
    my ($self, $naa) = @_;
    return 1 if $self->map_of($naa);
    my @disks = $self->disks_of($naa);
    return @disks ? 1 : 0;
}

# Reads the size of the volume's disks anew.
sub resize {
    my ($self, $naa) = @_;
    $self->{machine}->write_file(attribute($_, 'rescan'), '1') for $self->disks_of($naa);
    my $map = $self->map_of($naa) // return;
    my $output = $self->must_run('multipathd', 'resize', 'map', $map->{alias});
    die "multipathd did not resize $map->{alias}: $output\n" if $output =~ m/\bfail/i;
    return;
}

# Multipath

sub multipath_runs {
    my ($self) = @_;
    my ($status, $output) = $self->{machine}->run('multipathd', 'show', 'daemon');
    return $status == 0 && $output =~ m/\A\s*pid / ? 1 : 0;
}

# The map of a volume: node (dm-N) and alias; undef if there is none.
sub map_of {
    my ($self, $naa) = @_;
    my $wanted = MAP_PREFIX . ($naa =~ s/\Anaa\.//r);
    for my $node (grep { m/\Adm-[0-9]+\z/ } $self->{machine}->list_folder(BLOCK)) {
        next if ($self->{machine}->read_file(BLOCK . "/$node/dm/uuid") // '') ne $wanted;
        my $alias = $self->{machine}->read_file(BLOCK . "/$node/dm/name") // next;
        return { node => $node, alias => $alias };
    }
    return undef;
}

# Has multipathd make a map over the paths, also over a single one, and returns its node when it has all
# of them.
sub assemble {
    my ($self, $naa, $paths) = @_;
    # The identifier goes into multipath's list, so that a single path gets a map too.
    $self->must_run('multipath', '-a', "/dev/$paths->[0]->{name}");
    my $node = $self->await(MAP_SECONDS, sub {
        my $found = $self->complete_map($naa, $paths);
        return $found if defined($found);
        # It is harmless for a path that multipathd has; it refuses one of which udev has not told it everything.
        $self->{machine}->run('multipathd', 'add', 'path', $_->{name}) for @$paths;
        return $self->complete_map($naa, $paths);
    });
    return $node // die 'multipathd made no map over the ' . scalar(@$paths) . " paths of $naa within " . MAP_SECONDS . " s\n";
}

# The node of a volume's map if it has all of these paths; undef else.
sub complete_map {
    my ($self, $naa, $paths) = @_;
    my $map = $self->map_of($naa) // return undef;
    my %members = map { $_ => 1 } $self->{machine}->list_folder(BLOCK . "/$map->{node}/slaves");
    return scalar(grep { !$members{ $_->{name} } } @$paths) ? undef : $map->{node};
}

# Removes the map of a volume, if there is one. A map in use stays, and that is an error.
sub disassemble {
    my ($self, $naa) = @_;
    my $map = $self->map_of($naa) // return;
    die "$map->{alias} is in use on this node\n" if $self->{machine}->is_busy("/dev/$map->{node}");
    $self->must_run('blockdev', '--flushbufs', "/dev/$map->{node}");
    $self->remove_map($map);
    $self->forget($naa);
    return;
}

# Removes a map that nobody uses. Programs that only look hold it for moments; in a map without paths they
# would wait as long as it queues, so it does no longer.
sub remove_map {
    my ($self, $map) = @_;
    my $output = '';
    my $is_gone = $self->await(REMOVAL_SECONDS, sub {
        die "$map->{alias} is in use on this node\n" if $self->{machine}->is_busy("/dev/$map->{node}");
        $self->{machine}->run('dmsetup', 'message', $map->{alias}, '0', 'fail_if_no_path');
        (undef, $output) = $self->{machine}->run('multipath', '-f', $map->{alias});
        return defined($self->{machine}->read_file(BLOCK . "/$map->{node}/dm/uuid")) ? undef : 1;
    });
    die "the map $map->{alias} cannot be removed: $output\n" if !$is_gone;
    return;
}

# Takes a volume from multipath's list of those that get a map though they have one path.
sub forget {
    my ($self, $naa) = @_;
    my ($status, $output) = $self->{machine}->run('multipath', '-w', '3' . ($naa =~ s/\Anaa\.//r));
    warn "multipath keeps $naa in its list: $output\n" if $status != 0;
    return;
}

1;
