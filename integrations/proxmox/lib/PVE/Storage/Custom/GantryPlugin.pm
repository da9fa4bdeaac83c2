# Proxmox VE storage plugin: volumes, snapshots and clones of a Gantry array over iSCSI.
# SPDX-License-Identifier: AGPL-3.0-or-later
#
# The methods are those of PVE::Storage::Plugin. Volumes are looked up on the array by their tags
# (Gantry::Proxmox::Volumes); devices are found and removed by NAA identifier only
# (Gantry::Proxmox::Initiator). A link /dev/gantry/OWNER/VOLUME leads to an active volume.
package PVE::Storage::Custom::GantryPlugin;

use strict;
use warnings;

use Digest::SHA qw(hmac_sha256_hex);
use File::Path qw(make_path);
use JSON;

use PVE::JSONSchema;
use PVE::Storage::Plugin;
use PVE::Tools;

use Gantry::Proxmox::Array;
use Gantry::Proxmox::Initiator;
use Gantry::Proxmox::Machine;
use Gantry::Proxmox::Names;
use Gantry::Proxmox::Problem;
use Gantry::Proxmox::Volumes;

use base qw(PVE::Storage::Plugin);

use constant {
    # Versions of the storage interface that the methods fit.
    API_MIN => 13,
    API_MAX => 15,
    # Seconds for the array to answer pvestatd, which asks every ten seconds.
    STATUS_SECONDS => 5,
    # Numbers of disks that are tried until one is free.
    NAME_ATTEMPTS => 32,
    # Characters of a CHAP secret; RFC 7143 wants 12 at least.
    SECRET_LENGTH => 32,
};

# Where tokens and the cluster's CHAP key are: root only, the same on all nodes.
our $secret_folder = '/etc/pve/priv/storage';
# The node; tests put one in memory in its place.
our $machine = Gantry::Proxmox::Machine->new();

# All nodes see the same volumes.
push @PVE::Storage::Plugin::SHARED_STORAGE, 'gantry' if !grep { $_ eq 'gantry' } @PVE::Storage::Plugin::SHARED_STORAGE;

# Configuration

# The node's own version, as far as the methods fit it.
sub api {
    my $known = eval { PVE::Storage::APIVER() } // API_MAX;
    return API_MAX if $known > API_MAX;
    return $known < API_MIN ? API_MIN : $known;
}

sub type { return 'gantry' }

sub plugindata {
    return {
        content => [{ images => 1, rootdir => 1, none => 1 }, { images => 1, rootdir => 1 }],
        format => [{ raw => 1 }, 'raw'],
        'sensitive-properties' => { password => 1 },
    };
}

sub properties {
    return {
        'gantry-url' => {
            description => 'The array\'s management interface, such as https://array.example.org:8443.',
            type => 'string', maxLength => 256,
        },
        'gantry-pool' => {
            description => 'Pool of the array in which volumes are made.',
            type => 'string', pattern => '[A-Za-z0-9][A-Za-z0-9._-]{0,62}',
        },
        'gantry-owner' => {
            description => 'Marks this storage\'s volumes on the array: 8 to 16 hexadecimal digits. Random unless given;'
                . ' given to see the volumes of a storage that was removed.',
            type => 'string', pattern => '[0-9a-f]{8,16}',
        },
        'gantry-fingerprint' => {
            description => 'SHA-256 fingerprint of the array\'s certificate, if nobody signed it whom the nodes trust.',
            type => 'string', pattern => '([A-Fa-f0-9]{2}:){31}[A-Fa-f0-9]{2}',
        },
        'gantry-thick' => {
            description => 'Set all space of new volumes aside, so that writes never fail for want of it.',
            type => 'boolean', default => 0,
        },
        'gantry-multipath' => {
            description => 'Use all portals through dm-multipath; without it one of them.',
            type => 'boolean', default => 1,
        },
        'gantry-chap' => {
            description => 'Nodes prove who they are (CHAP), with secrets derived from a key of the cluster.',
            type => 'boolean', default => 1,
        },
        'gantry-portals' => {
            description => 'iSCSI portals to use, ADDRESS:PORT, separated by commas; by default those that the array names.',
            type => 'string', pattern => '[0-9A-Za-z.:\[\],-]+', maxLength => 1024,
        },
    };
}

sub options {
    my @fixed = ('gantry-url', 'gantry-pool');
    my @optional = (
        qw(nodes disable content password),
        map { "gantry-$_" } qw(fingerprint thick multipath chap portals),
    );
    return {
        (map { $_ => { fixed => 1 } } @fixed),
        'gantry-owner' => { optional => 1, fixed => 1 },
        (map { $_ => { optional => 1 } } @optional),
    };
}

sub token_file { my ($storeid) = @_; return "$secret_folder/$storeid.gantry-token" }

sub write_secret {
    my ($file, $text) = @_;
    make_path($secret_folder, { mode => 0700 });
    return PVE::Tools::file_set_contents($file, "$text\n", 0600);
}

# Stores the token, looks whether it is good, and gives the storage its mark.
sub on_add_hook {
    my ($class, $storeid, $scfg, %sensitive) = @_;
    my $token = $sensitive{password} // die "a token is missing: '--password', and 'gantry token create NAME --role operator' makes one\n";
    $scfg->{'gantry-owner'} //= Gantry::Proxmox::Array::random_hex(4);
    ensure_chap_key($scfg);
    write_secret(token_file($storeid), $token);
    return if eval { $class->check_access($storeid, $scfg); 1 };
    my $error = $@;
    unlink(token_file($storeid));
    die $error;
}

sub check_access {
    my ($class, $storeid, $scfg) = @_;
    my $volumes = $class->volumes($storeid, $scfg);
    my $role = $volumes->{array}->request('GET', ['me'])->{data}->{role};
    die "the token has the role viewer, and the plugin needs operator\n" if $role eq 'viewer';
    warn "the token has the role $role, and operator suffices: make a narrower one\n" if $role ne 'operator';
    $volumes->check_pool();
    return;
}

sub on_update_hook_full {
    my ($class, $storeid, $scfg, $update, $delete, $sensitive) = @_;
    my %after = (%$scfg, %{ $update // {} });
    delete @after{ @{ $delete // [] } };
    ensure_chap_key(\%after);
    # A storage whose array is away can still be disabled.
    return if !exists($sensitive->{password});
    die "the storage cannot be without its token\n" if !defined($sensitive->{password});
    my $file = token_file($storeid);
    my $before = $machine->read_file($file);
    write_secret($file, $sensitive->{password});
    return if eval { $class->check_access($storeid, \%after); 1 };
    my $error = $@;
    write_secret($file, $before) if defined($before);
    die $error;
}

# The volumes stay on the array.
sub on_delete_hook {
    my ($class, $storeid, $scfg) = @_;
    unlink(token_file($storeid));
    print "volumes stay on the array; a storage with '--gantry-owner $scfg->{'gantry-owner'}' shows them again\n";
    return;
}

# The array's side of a storage.
sub volumes {
    my ($class, $storeid, $scfg) = @_;
    my $owner = $scfg->{'gantry-owner'} // die "storage '$storeid' has no gantry-owner: add it with 'pvesm add', which gives it one\n";
    my $array = Gantry::Proxmox::Array->new(
        url => $scfg->{'gantry-url'}, token_file => token_file($storeid), fingerprint => $scfg->{'gantry-fingerprint'},
    );
    return Gantry::Proxmox::Volumes->new(array => $array, pool => $scfg->{'gantry-pool'}, owner => $owner);
}

sub initiator { return Gantry::Proxmox::Initiator->new($machine) }

# Names and paths

sub parse_volname {
    my ($class, $volname) = @_;
    my ($vmid, $is_base) = Gantry::Proxmox::Names::parse($volname);
    return ('images', $volname, $vmid, undef, undef, $is_base, 'raw');
}

sub filesystem_path {
    my ($class, $scfg, $volname, $snapname) = @_;
    my ($vtype, $name, $vmid) = $class->parse_volname($volname);
    Gantry::Proxmox::Names::check_snapshot($snapname) if defined($snapname);
    my $path = $machine->link_folder() . "/$scfg->{'gantry-owner'}/$name" . (defined($snapname) ? "\@$snapname" : '');
    return wantarray ? ($path, $vmid, $vtype) : $path;
}

sub path {
    my ($class, $scfg, $volname, $storeid, $snapname) = @_;
    return $class->filesystem_path($scfg, $volname, $snapname);
}

# Volumes

sub alloc_image {
    my ($class, $storeid, $scfg, $vmid, $format, $name, $kilobytes) = @_;
    die "format '$format' is not supported: volumes are raw\n" if $format ne 'raw';
    die "a volume needs a size\n" if !$kilobytes || $kilobytes < 0;
    $class->check_name($name, $vmid) if defined($name);
    my $volumes = $class->volumes($storeid, $scfg);
    return $class->make_volume($storeid, $scfg, $vmid, $name, sub {
        my ($volname) = @_;
        return $volumes->create($volname, $kilobytes * 1024, $scfg->{'gantry-thick'});
    });
}

sub check_name {
    my ($class, $name, $vmid) = @_;
    my ($owner, $is_base) = Gantry::Proxmox::Names::parse($name);
    die "illegal name '$name': it must begin with 'vm-$vmid-'\n" if $owner ne $vmid || $is_base;
    return;
}

# Runs the code with a name until it has made that volume: the given one, or the first free disk number.
sub make_volume {
    my ($class, $storeid, $scfg, $vmid, $name, $code) = @_;
    if (defined($name)) {
        return $name if $code->($name);
        die "volume '$name' already exists\n";
    }
    # Names that are taken on the array though the storage does not list them.
    my @taken;
    for my $attempt (1 .. NAME_ATTEMPTS) {
        my $disks = [map({ $_->{volid} } @{ $class->list_images($storeid, $scfg, $vmid) }), map { "$storeid:$_" } @taken];
        my $volname = PVE::Storage::Plugin::get_next_vm_diskname($disks, $storeid, $vmid, 'raw', $scfg, 0);
        return $volname if $code->($volname);
        push @taken, $volname;
    }
    die "no free name for a disk of $vmid on '$storeid': others hold " . join(', ', @taken) . " on the array\n";
}

sub free_image {
    my ($class, $storeid, $scfg, $volname, $is_base, $format) = @_;
    my $volumes = $class->volumes($storeid, $scfg);
    my $volume = $volumes->show($volname);
    my @snapshots = values %{ $volumes->snapshots($volname) };
    $class->leave_node($volumes, $scfg, $_) for $volume, @snapshots;
    $machine->remove_link(scalar($class->filesystem_path($scfg, $volname)));
    my $now = $volumes->release($volume->{name}, $volume->{naa}) // die "volume '$volname' does not exist\n";
    $volumes->remove($volname, $now);
    return undef;
}

# Removes a volume's devices from this node, and this node from those who see the volume.
sub leave_node {
    my ($class, $volumes, $scfg, $object) = @_;
    $machine->locked(sub {
        $class->initiator()->detach($object->{naa});
        my $host = $class->own_host($volumes) // return;
        $volumes->unmap_from($object, $host->{name}) if grep { $_ eq $host->{name} } map { ref($_) ? $_->{host} : $_ } @{ $object->{maps} // $object->{hosts} };
        return;
    });
    return;
}

# This node's host on the array; undef if it has none.
sub own_host {
    my ($class, $volumes) = @_;
    my $name = eval { $class->initiator()->name() } // return undef;
    return $volumes->host_of($name);
}

# A volume with the content of a base image or snapshot, made by the array at once. It depends on
# nothing: base image and snapshot may be deleted.
sub clone_image {
    my ($class, $scfg, $storeid, $volname, $vmid, $snap) = @_;
    my $is_base = ($class->parse_volname($volname))[5];
    die "only base images and snapshots are cloned\n" if !$is_base && !defined($snap);
    my $volumes = $class->volumes($storeid, $scfg);
    my $source = defined($snap) ? $volumes->snapshot($volname, $snap)->{name} : $volumes->show($volname)->{name};
    return $class->make_volume($storeid, $scfg, $vmid, undef, sub {
        my ($new) = @_;
        return $volumes->clone($source, $new, $scfg->{'gantry-thick'});
    });
}

sub create_base {
    my ($class, $storeid, $scfg, $volname) = @_;
    my ($name, $is_base) = ($class->parse_volname($volname))[1, 5];
    die "'$volname' is a base image already\n" if $is_base;
    return $class->rename_inactive($storeid, $scfg, $volname, $name =~ s/\Avm-/base-/r);
}

sub rename_volume {
    my ($class, $scfg, $storeid, $volname, $target_vmid, $target_volname) = @_;
    if (defined($target_volname)) {
        my ($vmid) = Gantry::Proxmox::Names::parse($target_volname);
        die "illegal name '$target_volname' for $target_vmid\n" if $vmid ne $target_vmid;
    }
    $target_volname //= $class->find_free_diskname($storeid, $scfg, $target_vmid, 'raw');
    return "$storeid:" . $class->rename_inactive($storeid, $scfg, $volname, $target_volname);
}

sub rename_inactive {
    my ($class, $storeid, $scfg, $volname, $new) = @_;
    my $volumes = $class->volumes($storeid, $scfg);
    my $volume = $volumes->show($volname);
    my @snapshots = sort keys %{ $volumes->snapshots($volname) };
    die "'$volname' has snapshots, delete them first: @snapshots\n" if @snapshots;
    $class->leave_node($volumes, $scfg, $volume);
    $machine->remove_link(scalar($class->filesystem_path($scfg, $volname)));
    $volumes->release($volume->{name}, $volume->{naa});
    $volumes->rename($volname, $new);
    return $new;
}

sub list_images {
    my ($class, $storeid, $scfg, $vmid, $vollist, $cache) = @_;
    my $known = $cache ? $cache->{gantry}->{$storeid} : undef;
    $known //= $class->volumes($storeid, $scfg)->list();
    $cache->{gantry}->{$storeid} = $known if $cache;
    my %wanted = map { $_ => 1 } @{ $vollist // [] };
    my @found;
    for my $volume (@$known) {
        my ($owner) = Gantry::Proxmox::Names::parse($volume->{volname});
        my $volid = "$storeid:$volume->{volname}";
        next if $vollist ? !$wanted{$volid} : defined($vmid) && $owner ne $vmid;
        push @found, {
            volid => $volid, format => 'raw', size => $volume->{size_bytes}, vmid => $owner,
            used => $volume->{mapped_bytes}, ctime => $volume->{created},
        };
    }
    return \@found;
}

sub volume_size_info {
    my ($class, $scfg, $storeid, $volname, $timeout) = @_;
    my $volume = $class->volumes($storeid, $scfg)->show($volname);
    return wantarray ? ($volume->{size_bytes}, 'raw', $volume->{mapped_bytes}, undef) : $volume->{size_bytes};
}

sub volume_resize {
    my ($class, $scfg, $storeid, $volname, $size, $running, $snapname) = @_;
    die "snapshots have the size that the volume had\n" if defined($snapname);
    my $volumes = $class->volumes($storeid, $scfg);
    my $volume = $volumes->show($volname);
    die "volumes only grow: '$volname' has $volume->{size_bytes} bytes\n" if $size < $volume->{size_bytes};
    $volumes->resize($volume, $size);
    $machine->locked(sub {
        my $initiator = $class->initiator();
        $initiator->resize($volume->{naa}) if $initiator->has($volume->{naa});
    });
    return undef;
}

# Snapshots

sub volume_snapshot {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;
    $class->volumes($storeid, $scfg)->create_snapshot($volname, $snap);
    return undef;
}

# Later snapshots stay and can be rolled back to.
sub volume_rollback_is_possible {
    my ($class, $scfg, $storeid, $volname, $snap, $blockers) = @_;
    $class->volumes($storeid, $scfg)->snapshot($volname, $snap);
    return 1;
}

sub volume_snapshot_rollback {
    my ($class, $scfg, $storeid, $volname, $snap) = @_;
    my $volumes = $class->volumes($storeid, $scfg);
    my $snapshot = $volumes->snapshot($volname, $snap);
    my $volume = $volumes->show($volname);
    # Linux would keep what it has read, and the size that the disk had.
    $class->leave_node($volumes, $scfg, $volume);
    $machine->remove_link(scalar($class->filesystem_path($scfg, $volname)));
    my $now = $volumes->release($volume->{name}, $volume->{naa}) // die "volume '$volname' does not exist\n";
    $volumes->revert($now, $snapshot);
    return undef;
}

sub volume_snapshot_delete {
    my ($class, $scfg, $storeid, $volname, $snap, $running) = @_;
    my $volumes = $class->volumes($storeid, $scfg);
    Gantry::Proxmox::Names::check_snapshot($snap);
    my $snapshot = $volumes->snapshots($volname)->{$snap};
    if (!$snapshot) {
        $volumes->check_pool();
        return undef;
    }
    $class->leave_node($volumes, $scfg, $snapshot);
    $machine->remove_link(scalar($class->filesystem_path($scfg, $volname, $snap)));
    $volumes->remove_snapshot($snapshot);
    return undef;
}

sub volume_snapshot_info {
    my ($class, $scfg, $storeid, $volname) = @_;
    my $snapshots = $class->volumes($storeid, $scfg)->snapshots($volname);
    return { map { $_ => {
        id => $snapshots->{$_}->{naa}, timestamp => $snapshots->{$_}->{created}, 'virtual-size' => $snapshots->{$_}->{size_bytes},
    } } keys %$snapshots };
}

sub rename_snapshot { die "snapshots keep their names on this storage\n" }

# The array takes the snapshot; QEMU does nothing.
sub volume_qemu_snapshot_method { return 'storage' }

# Snapshots of containers are of mounted file systems.
sub volume_snapshot_needs_fsfreeze { return 1 }

sub storage_can_replicate { return 0 }

sub volume_has_feature {
    my ($class, $scfg, $feature, $storeid, $volname, $snapname, $running, $opts) = @_;
    my %features = (
        snapshot => { current => 1 },
        clone => { base => 1, snap => 1 },
        template => { current => 1 },
        copy => { base => 1, current => 1, snap => 1 },
        sparseinit => { base => 1, current => 1 },
        rename => { current => 1 },
    );
    my $is_base = ($class->parse_volname($volname))[5];
    my $place = defined($snapname) ? 'snap' : $is_base ? 'base' : 'current';
    return $features{$feature}->{$place};
}

# Storage

sub status {
    my ($class, $storeid, $scfg, $cache) = @_;
    my $pool = $class->volumes($storeid, $scfg)->check_pool(seconds => STATUS_SECONDS);
    my $space = $pool->{space};
    return ($space->{total_bytes}, $space->{free_bytes}, $space->{total_bytes} - $space->{free_bytes}, 1);
}

# Whether the array answers. A refused token is an error with a sentence of its own, not 'offline'.
sub check_connection {
    my ($class, $storeid, $scfg) = @_;
    return 1 if eval { $class->volumes($storeid, $scfg)->{array}->request('GET', ['me'], seconds => STATUS_SECONDS); 1 };
    die $@ if !Gantry::Proxmox::Problem::is($@, 'unreachable');
    warn $@;
    return 0;
}

# The array and pool, whatever this storage is called.
sub get_identity {
    my ($class, $scfg, $storeid) = @_;
    my $volumes = $class->volumes($storeid, $scfg);
    return $volumes->{array}->request('GET', ['target'])->{data}->{name} . '/' . $volumes->check_pool()->{uuid};
}

# After a boot this node has no device, but the array may still map volumes to it: they are taken away.
sub activate_storage {
    my ($class, $storeid, $scfg, $cache) = @_;
    my $mark = $scfg->{'gantry-owner'};
    return 1 if $machine->has_mark($mark);
    my $volumes = $class->volumes($storeid, $scfg);
    $volumes->check_pool();
    $machine->locked(sub {
        my $initiator = $class->initiator();
        my $host = $class->own_host($volumes);
        my @seen = $host ? $volumes->seen_by($host->{name}) : ();
        $volumes->unmap_from($_, $host->{name}) for grep { !$initiator->has($_->{naa}) } @seen;
        $machine->put_mark($mark);
    });
    return 1;
}

sub deactivate_storage { return 1 }

# Maps a volume or snapshot to this node and attaches it. Another node may have it at the same time.
sub activate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache, $hints) = @_;
    my $path = $class->filesystem_path($scfg, $volname, $snapname);
    my $volumes = $class->volumes($storeid, $scfg);
    return 1 if eval { $class->attach_volume($volumes, $scfg, $volname, $snapname, $path); 1 };
    my $error = $@;
    # A guest starts on a volume that is attached, though the management does not answer.
    die $error if !Gantry::Proxmox::Problem::is($error, 'unreachable') || !$machine->is_device($path);
    warn "'$volname' is active already, and is used as it is: $error";
    return 1;
}

sub attach_volume {
    my ($class, $volumes, $scfg, $volname, $snapname, $path) = @_;
    my $object = $volumes->show($volname);
    if (defined($snapname)) {
        $object = $volumes->fetch($volumes->snapshot($volname, $snapname)->{name}) // die "volume '$volname' has no snapshot '$snapname'\n";
    }
    my $read_only = defined($snapname) || ($class->parse_volname($volname))[5];
    $machine->locked(sub {
        my $name = $class->initiator()->name();
        my ($host, $chap) = $class->ensure_host($volumes, $scfg, $name);
        my $link = $class->initiator()->attach({
            target => $volumes->{array}->request('GET', ['target'])->{data}->{name},
            portals => $class->portals($volumes, $scfg),
            lun => $volumes->map_to($object, $host->{name}, $read_only),
            naa => $object->{naa}, multipath => $scfg->{'gantry-multipath'} // 1, chap => $chap,
        });
        $machine->put_link($link, $path);
    });
    return;
}

# Removes a volume's devices from this node only, and then lets the array forget that it sees it.
sub deactivate_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $cache) = @_;
    my $path = $class->filesystem_path($scfg, $volname, $snapname);
    my $naa = Gantry::Proxmox::Initiator::naa_of_link($machine->read_link($path));
    $machine->locked(sub { $class->initiator()->detach($naa) }) if defined($naa);
    $machine->remove_link($path);
    my $volumes = $class->volumes($storeid, $scfg);
    my $object = $volumes->find($volname);
    if ($object && defined($snapname)) {
        $object = $volumes->snapshots($volname)->{$snapname};
    }
    $class->leave_node($volumes, $scfg, $object) if $object;
    return 1;
}

sub map_volume {
    my ($class, $storeid, $scfg, $volname, $snapname, $hints) = @_;
    $class->activate_volume($storeid, $scfg, $volname, $snapname, {}, $hints);
    return scalar($class->filesystem_path($scfg, $volname, $snapname));
}

sub unmap_volume {
    my ($class, $storeid, $scfg, $volname, $snapname) = @_;
    return $class->deactivate_volume($storeid, $scfg, $volname, $snapname);
}

# Hosts and portals

# This node's host on the array, made if need be, and its CHAP account. Another call may be making it.
sub ensure_host {
    my ($class, $volumes, $scfg, $initiator) = @_;
    my $host = $volumes->host_of($initiator);
    if (!$host) {
        my $chap = $scfg->{'gantry-chap'} // 1 ? chap_account($initiator) : undef;
        my $name = Gantry::Proxmox::Names::host_name($machine->node_name(), $initiator);
        my $body = { name => $name, initiators => [$initiator], $chap ? (chap => $chap) : () };
        my $made = eval { $volumes->{array}->request('POST', ['hosts'], body => $body)->{data} };
        return ($made, $chap) if $made;
        my $error = $@;
        $host = Gantry::Proxmox::Problem::is($error, 'name-taken', 'initiator-taken') ? $volumes->host_of($initiator) : undef;
        die $error if !$host;
    }
    if (@{ $host->{initiators} } > 1) {
        die "initiator $initiator belongs to host '$host->{name}' of the array together with others, which would see the volume too:"
            . " give the node a host of its own\n";
    }
    my $user = $host->{chap_user} // return ($host, undef);
    return ($host, chap_account($initiator)) if $user eq $initiator;
    die "host '$host->{name}' of the array has a CHAP account that this plugin did not make: delete that host, or its account\n";
}

# Makes the cluster's CHAP key. It is called under the lock of the storage configuration, so that no two
# nodes make one.
sub ensure_chap_key {
    my ($scfg) = @_;
    my $file = "$secret_folder/gantry.chap-key";
    return if !($scfg->{'gantry-chap'} // 1) || defined($machine->read_file($file));
    write_secret($file, Gantry::Proxmox::Array::random_hex(32));
    return;
}

# The node's account: its initiator name, and a secret derived from the cluster's key.
sub chap_account {
    my ($initiator) = @_;
    my $file = "$secret_folder/gantry.chap-key";
    my $key = $machine->read_file($file);
    die "$file does not hold the cluster's CHAP key, 64 hexadecimal digits: 'pvesm set STORAGE --gantry-chap 1' makes it\n" if ($key // '') !~ m/\A[0-9a-f]{64}\z/;
    return { user => $initiator, secret => substr(hmac_sha256_hex("gantry-proxmox chap $initiator", $key), 0, SECRET_LENGTH) };
}

# Portals that nodes can log in to: not wildcard addresses, which say nothing to others.
sub portals {
    my ($class, $volumes, $scfg) = @_;
    return [split(m/,/, $scfg->{'gantry-portals'})] if defined($scfg->{'gantry-portals'});
    my @usable = map { $_->{address} } grep { !defined($_->{redirect}) && $_->{address} !~ m/\A(?:0\.0\.0\.0|\[::\]):/ }
        @{ $volumes->{array}->list('portals', {}) };
    return \@usable if @usable;
    die "the array names no portal with an address of its own: start gantryd with --iscsi IP:PORT, or set gantry-portals\n";
}

# Export and import (storage migration, pvesm export)

sub volume_export_formats {
    my ($class, $scfg, $storeid, $volname, $snapshot, $base_snapshot, $with_snapshots) = @_;
    return defined($base_snapshot) || $with_snapshots ? () : ('raw+size');
}

sub volume_import_formats {
    my ($class, $scfg, $storeid, $volname, $snapshot, $base_snapshot, $with_snapshots) = @_;
    return defined($base_snapshot) || $with_snapshots ? () : ('raw+size');
}

sub check_stream {
    my ($format, $base_snapshot, $with_snapshots) = @_;
    die "format '$format' is not supported: volumes go as raw+size\n" if $format ne 'raw+size';
    die "volumes go without their snapshots, and as a whole\n" if defined($base_snapshot) || $with_snapshots;
    return;
}

sub volume_export {
    my ($class, $scfg, $storeid, $handle, $volname, $format, $snapshot, $base_snapshot, $with_snapshots) = @_;
    check_stream($format, $base_snapshot, $with_snapshots);
    my $volumes = $class->volumes($storeid, $scfg);
    my $size = defined($snapshot) ? $volumes->snapshot($volname, $snapshot)->{size_bytes} : $volumes->show($volname)->{size_bytes};
    $class->while_active($storeid, $scfg, $volname, $snapshot, sub {
        my ($path) = @_;
        PVE::Storage::Plugin::write_common_header($handle, $size);
        $machine->copy_out($path, $handle);
    });
    return;
}

# Runs the code with the path of an active volume; one that was not active is deactivated again.
sub while_active {
    my ($class, $storeid, $scfg, $volname, $snapname, $code) = @_;
    my $path = $class->filesystem_path($scfg, $volname, $snapname);
    my $was_active = $machine->is_device($path);
    $class->activate_volume($storeid, $scfg, $volname, $snapname, {});
    my $done = eval { $code->($path); 1 };
    my $error = $@;
    if (!$was_active && !eval { $class->deactivate_volume($storeid, $scfg, $volname, $snapname, {}); 1 }) {
        warn $@;
    }
    die $error if !$done;
    return;
}

sub volume_import {
    my ($class, $scfg, $storeid, $handle, $volname, $format, $snapshot, $base_snapshot, $with_snapshots, $allow_rename) = @_;
    check_stream($format, $base_snapshot, $with_snapshots);
    my ($name, $vmid, $is_base) = ($class->parse_volname($volname))[1, 2, 5];
    my $wanted = $name =~ s/\Abase-/vm-/r;
    my ($size) = PVE::Storage::Plugin::read_common_header($handle);
    my $kilobytes = int(($size + 1023) / 1024);
    my $made = $class->cluster_lock_storage($storeid, $scfg->{shared}, undef, sub {
        my $taken = $class->volumes($storeid, $scfg)->find($volname) || $class->volumes($storeid, $scfg)->find($wanted);
        die "volume '$volname' already exists\n" if $taken && !$allow_rename;
        return $class->alloc_image($storeid, $scfg, $vmid, 'raw', $taken ? undef : $wanted, $kilobytes);
    });
    my $written = eval {
        $class->while_active($storeid, $scfg, $made, undef, sub { $machine->copy_in($handle, $_[0]) });
        $made = $class->create_base($storeid, $scfg, $made) if $is_base;
        1;
    };
    return "$storeid:$made" if $written;
    my $error = $@;
    eval { $class->cluster_lock_storage($storeid, $scfg->{shared}, undef, sub { $class->free_image($storeid, $scfg, $made, 0, 'raw') }); 1 } or warn $@;
    die $error;
}

1;
