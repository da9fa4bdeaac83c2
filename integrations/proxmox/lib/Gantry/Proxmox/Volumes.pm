# Volumes and snapshots of one Proxmox VE storage on the array: made, found, renamed and deleted by tag.
# SPDX-License-Identifier: AGPL-3.0-or-later
#
# What does not have the storage's tag does not exist here, and is never deleted. The request that makes
# something gives it its tags, and the array's names let one of two nodes lose that make the same volume.
package Gantry::Proxmox::Volumes;

use strict;
use warnings;

use Gantry::Proxmox::Array;
use Gantry::Proxmox::Names;
use Gantry::Proxmox::Problem;

use constant {
    # Attempts at a change that others get ahead of (412).
    CONFLICTS_MAX => 8,
    # Sizes are multiples of this, bytes (docs/rest.md).
    SIZE_UNIT => 4096,
};

# array: a client. pool: of the array. owner: of the storage.
sub new {
    my ($class, %fields) = @_;
    return bless({%fields}, $class);
}

# The volume of that name, with its ETag as 'etag'. Dies if there is none.
sub show {
    my ($self, $volname) = @_;
    return $self->find($volname) // die "volume '$volname' does not exist\n";
}

# The same, or undef. A pool that is not open does not show its volumes, which is an error.
sub find {
    my ($self, $volname) = @_;
    Gantry::Proxmox::Names::parse($volname);
    my $owner = $self->{owner};
    my $tag = Gantry::Proxmox::Names::tag_value($owner, $volname);
    my $volume = $self->fetch(Gantry::Proxmox::Names::array_name($owner, $volname));
    return $volume if $volume && ($volume->{tags}->{ Gantry::Proxmox::Names::VOLUME_TAG() } // '') eq $tag;
    # Somebody may have renamed it on the array.
    my $found = $self->tagged('volumes', Gantry::Proxmox::Names::VOLUME_TAG, $tag);
    return $self->fetch($found->[0]->{name}) if @$found;
    $self->check_pool();
    return undef;
}

# An object of the pool by its name there, with its ETag; undef if there is none.
sub fetch {
    my ($self, $name) = @_;
    my $answer = eval { $self->{array}->request('GET', ['volumes', $self->{pool}, $name]) };
    return { %{ $answer->{data} }, etag => $answer->{etag} } if $answer;
    die $@ if !Gantry::Proxmox::Problem::is($@, 'not-found');
    return undef;
}

sub tagged {
    my ($self, $collection, $key, $value, %filter) = @_;
    return $self->{array}->list($collection, { %filter, pool => $self->{pool}, tag => "$key:$value" });
}

# All volumes of the storage; each has 'volname'.
sub list {
    my ($self, %filter) = @_;
    my $key = Gantry::Proxmox::Names::VOLUME_TAG;
    my @found;
    for my $volume (@{ $self->tagged('volumes', $key, "$self->{owner}/*", %filter) }) {
        $volume->{volname} = $volume->{tags}->{$key} =~ s{\A[^/]*/}{}r;
        push @found, $volume if eval { Gantry::Proxmox::Names::parse($volume->{volname}); 1 };
    }
    return \@found;
}

# The pool as it is; dies if its volumes are not known.
sub check_pool {
    my ($self, %options) = @_;
    my $pool = $self->{array}->request('GET', ['pools', $self->{pool}], %options)->{data};
    return $pool if $pool->{state} eq 'ready' || $pool->{state} eq 'read-only';
    die "pool '$self->{pool}' of the array is $pool->{state}" . ($pool->{reason} ? ": $pool->{reason}" : '') . "\n";
}

# Makes an empty volume. Returns false if there is something of that name.
sub create {
    my ($self, $volname, $bytes, $thick) = @_;
    my $body = { pool => $self->{pool}, name => $self->array_name($volname), size_bytes => round_size($bytes), thick => json_bool($thick) };
    return $self->make($volname, ['volumes'], $body);
}

# Makes a volume with the content of another one or of a snapshot, by its name on the array.
sub clone {
    my ($self, $source, $volname, $thick) = @_;
    my $body = { name => $self->array_name($volname), thick => json_bool($thick) };
    return $self->make($volname, ['volumes', $self->{pool}, $source, 'clones'], $body);
}

# False if there is something of that name already, unless this call made it: an attempt whose answer was
# lost. The array forgets Idempotency-Keys when it restarts.
sub make {
    my ($self, $volname, $segments, $body) = @_;
    my $call = Gantry::Proxmox::Array::random_hex(16);
    $body->{tags} = {
        Gantry::Proxmox::Names::VOLUME_TAG() => Gantry::Proxmox::Names::tag_value($self->{owner}, $volname),
        Gantry::Proxmox::Names::CALL_TAG() => $call,
    };
    return 1 if eval { $self->{array}->request('POST', $segments, body => $body); 1 };
    my $error = $@;
    die $error if !Gantry::Proxmox::Problem::is($error, 'name-taken');
    my $known = $self->fetch($body->{name});
    return $known && ($known->{tags}->{ Gantry::Proxmox::Names::CALL_TAG() } // '') eq $call ? 1 : 0;
}

# Repeats a change of an object until nobody got ahead of it. The code takes the object as it is.
sub change {
    my ($self, $name, $naa, $code) = @_;
    for my $attempt (1 .. CONFLICTS_MAX) {
        my $volume = $self->fetch($name);
        if (!$volume || $volume->{naa} ne $naa) {
            Gantry::Proxmox::Problem->throw(type => 'not-found', status => 404, detail => "volume '$name' was deleted meanwhile");
        }
        my @result = eval { ($code->($volume), 1) };
        return $result[0] if @result;
        die $@ if !Gantry::Proxmox::Problem::is($@, 'changed', 'not-there') || $attempt == CONFLICTS_MAX;
        Time::HiRes::sleep(0.01 * 2**$attempt * (0.5 + rand()));
    }
    return;
}

sub put_tags {
    my ($self, $collection, $object, $tags) = @_;
    my @path = ($collection, $self->{pool}, $object->{name}, 'tags');
    $self->{array}->request('PUT', \@path, body => { tags => $tags }, etag => $object->{etag});
    return 1;
}

sub delete_object {
    my ($self, $collection, $object) = @_;
    my $sent = eval { $self->{array}->request('DELETE', [$collection, $self->{pool}, $object->{name}], etag => $object->{etag}); 1 };
    # An earlier attempt may have done it, and its answer may have been lost.
    die $@ if !$sent && !Gantry::Proxmox::Problem::is($@, 'not-found');
    return 1;
}

# Deletes a volume that nobody sees, and then its snapshots that are this storage's. Snapshots of
# administrators and of schedules stay, and so do locked ones.
sub remove {
    my ($self, $volname, $volume) = @_;
    my @snapshots = values %{ $self->snapshots($volname) };
    $self->delete_object('volumes', $volume);
    for my $snapshot (@snapshots) {
        eval { $self->remove_snapshot($snapshot); 1 }
            or warn "snapshot '$snapshot->{name}' of '$volname' stays on the array: $@";
    }
    return;
}

# Gives a volume another name, on the array and in its tag. The tag goes last and decides.
sub rename {
    my ($self, $volname, $new) = @_;
    Gantry::Proxmox::Names::parse($new);
    my $volume = $self->show($volname);
    die "target volume '$new' already exists\n" if $self->find($new);
    my $name = $self->array_name($new);
    if ($volume->{name} ne $name) {
        my $renamed = eval { $self->{array}->request('POST', ['volumes', $self->{pool}, $volume->{name}, 'rename'], body => { name => $name }, etag => $volume->{etag}); 1 };
        my $error = $@;
        # Again: an earlier attempt may have done it.
        if (!$renamed && !(Gantry::Proxmox::Problem::is($error, 'not-found', 'not-there') && $self->fetch($name))) {
            die "target volume '$new' already exists\n" if Gantry::Proxmox::Problem::is($error, 'name-taken');
            die $error;
        }
    }
    my $tags = { Gantry::Proxmox::Names::VOLUME_TAG() => Gantry::Proxmox::Names::tag_value($self->{owner}, $new) };
    return $self->change($name, $volume->{naa}, sub { $self->put_tags('volumes', $_[0], { %{ $_[0]->{tags} }, %$tags }) });
}

# Makes a volume larger.
sub resize {
    my ($self, $volume, $bytes) = @_;
    my @path = ('volumes', $self->{pool}, $volume->{name});
    return $self->{array}->request('PATCH', \@path, body => { size_bytes => round_size($bytes) }, etag => $volume->{etag});
}

# Snapshots

# Snapshots of a volume that this storage made, by their names in Proxmox VE.
sub snapshots {
    my ($self, $volname) = @_;
    my $key = Gantry::Proxmox::Names::SNAPSHOT_TAG;
    my $prefix = Gantry::Proxmox::Names::tag_value($self->{owner}, $volname, '');
    return { map { substr($_->{tags}->{$key}, length($prefix)) => $_ } @{ $self->tagged('snapshots', $key, "$prefix*") } };
}

# A snapshot of a volume that exists; dies if there is none.
sub snapshot {
    my ($self, $volname, $snap) = @_;
    Gantry::Proxmox::Names::check_snapshot($snap);
    my $found = $self->snapshots($volname)->{$snap};
    return $found if $found;
    $self->check_pool();
    die "volume '$volname' has no snapshot '$snap'\n";
}

sub create_snapshot {
    my ($self, $volname, $snap) = @_;
    Gantry::Proxmox::Names::check_snapshot($snap);
    my $volume = $self->show($volname);
    my $tag = Gantry::Proxmox::Names::tag_value($self->{owner}, $volname, $snap);
    die "volume '$volname' has a snapshot '$snap' already\n" if $self->snapshots($volname)->{$snap};
    return $self->post_snapshot($volume, $self->array_name($volname, $snap), $tag);
}

# Another node may take the free name before; an attempt whose answer was lost has taken it.
sub post_snapshot {
    my ($self, $volume, $wanted, $tag) = @_;
    my $call = Gantry::Proxmox::Array::random_hex(16);
    my $tags = { Gantry::Proxmox::Names::SNAPSHOT_TAG() => $tag, Gantry::Proxmox::Names::CALL_TAG() => $call };
    for my $attempt (1 .. CONFLICTS_MAX) {
        my $name = $self->free_snapshot_name($wanted);
        my $body = { pool => $self->{pool}, snapshots => [{ volume => $volume->{name}, name => $name, tags => $tags }] };
        return 1 if eval { $self->{array}->request('POST', ['snapshots'], body => $body); 1 };
        my $error = $@;
        return 1 if @{ $self->tagged('snapshots', Gantry::Proxmox::Names::CALL_TAG, $call) };
        die $error if !Gantry::Proxmox::Problem::is($error, 'name-taken') || $attempt == CONFLICTS_MAX;
    }
    return 0;
}

# A name for a snapshot. What has the name, such as a locked snapshot of a volume that is gone, keeps it,
# and the new one gets another.
sub free_snapshot_name {
    my ($self, $name) = @_;
    return $name if !$self->fetch($name);
    my $suffix = '-' . Gantry::Proxmox::Array::random_hex(4);
    return substr($name, 0, Gantry::Proxmox::Names::NAME_MAX - length($suffix)) . $suffix;
}

# Takes a snapshot away, also from nodes without a session that saw it.
sub remove_snapshot {
    my ($self, $snapshot) = @_;
    $self->release($snapshot->{name}, $snapshot->{naa});
    my $now = $self->{array}->request('GET', ['snapshots', $self->{pool}, $snapshot->{name}]);
    die "snapshot '$snapshot->{name}' is another one now\n" if $now->{data}->{naa} ne $snapshot->{naa};
    return $self->delete_object('snapshots', { name => $snapshot->{name}, etag => $now->{etag} });
}

sub revert {
    my ($self, $volume, $snapshot) = @_;
    my @path = ('volumes', $self->{pool}, $volume->{name}, 'revert');
    return $self->{array}->request('POST', \@path, body => { snapshot => $snapshot->{name} }, etag => $volume->{etag});
}

# Hosts

# The array's host of an initiator; undef if there is none.
sub host_of {
    my ($self, $initiator) = @_;
    return $self->{array}->list('hosts', { initiators => $initiator })->[0];
}

# Volumes and snapshots of the storage that a host sees.
sub seen_by {
    my ($self, $host) = @_;
    my $snapshots = $self->tagged('snapshots', Gantry::Proxmox::Names::SNAPSHOT_TAG, "$self->{owner}/*", hosts => $host);
    return (@{ $self->list(hosts => $host) }, @$snapshots);
}

# The LUN number by which a host sees an object, mapping it if need be.
sub map_to {
    my ($self, $object, $host, $read_only) = @_;
    for my $map (@{ $object->{maps} }) {
        return $map->{lun} if $map->{host} eq $host && !$map->{read_only} == !$read_only;
    }
    my @path = ('volumes', $self->{pool}, $object->{name}, 'maps', $host);
    return $self->change($object->{name}, $object->{naa}, sub {
        my ($now) = @_;
        return $self->{array}->request('PUT', \@path, body => { read_only => json_bool($read_only) }, etag => $now->{etag})->{data}->{lun};
    });
}

sub unmap_from {
    my ($self, $object, $host) = @_;
    my @path = ('volumes', $self->{pool}, $object->{name}, 'maps', $host);
    return 1 if eval { $self->{array}->request('DELETE', \@path); 1 };
    return 1 if Gantry::Proxmox::Problem::is($@, 'not-mapped', 'not-found');
    die $@;
}

# Takes an object away from hosts that have no session, such as a node that died, and returns it as it is
# then. Dies if a host that has one sees it: a guest may be using it there.
sub release {
    my ($self, $name, $naa) = @_;
    my $object = $self->fetch($name);
    return undef if !$object || $object->{naa} ne $naa;
    for my $map (@{ $object->{maps} }) {
        my $host = eval { $self->{array}->request('GET', ['hosts', $map->{host}])->{data} };
        my $alive = !$host || grep { @{ $self->{array}->list('sessions', { initiator => $_ }) } } @{ $host->{initiators} };
        die "'$name' of pool '$self->{pool}' is still active on '$map->{host}': stop what uses it there"
            . " (or 'gantry volume unmap $self->{pool}/$name --host $map->{host}' if nothing does)\n" if $alive;
        $self->unmap_from($object, $map->{host});
    }
    return @{ $object->{maps} } ? $self->fetch($name) : $object;
}

sub array_name {
    my ($self, $volname, $snapshot) = @_;
    return Gantry::Proxmox::Names::array_name($self->{owner}, $volname, $snapshot);
}

sub round_size { my ($bytes) = @_; return int(($bytes + SIZE_UNIT - 1) / SIZE_UNIT) * SIZE_UNIT }

sub json_bool { my ($value) = @_; return $value ? JSON::true() : JSON::false() }

1;
