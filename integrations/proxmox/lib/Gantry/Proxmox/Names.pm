# Names and tags of the array for the volumes and snapshots of one Proxmox VE storage.
# SPDX-License-Identifier: AGPL-3.0-or-later
#
# The tag says what a volume is, OWNER/VOLUME or OWNER/VOLUME@SNAPSHOT; the array's name only shows it
# to people, and keeps two nodes from making the same volume. OWNER is random for each storage, so that
# storages and clusters that share a pool never see each other's volumes.
package Gantry::Proxmox::Names;

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);

use constant {
    # Keys of the tags.
    VOLUME_TAG => 'pve.volume',
    SNAPSHOT_TAG => 'pve.snapshot',
    # Random for each call that makes something, so that one whose answer was lost knows what it made.
    CALL_TAG => 'pve.call',
    # Longest name that the array takes (docs/rest.md).
    NAME_MAX => 63,
    # Hexadecimal digits that make a shortened name unlike others.
    DIGEST_LENGTH => 16,
};

# Parts of a volume's name: (vmid, is it a base image). Dies of a name that is none.
sub parse {
    my ($volname) = @_;
    if (defined($volname) && length($volname) <= 80 && $volname =~ m/\A(vm|base)-([1-9][0-9]{0,8})-[A-Za-z0-9][A-Za-z0-9_-]*\z/) {
        return ($2, $1 eq 'base' ? 1 : 0);
    }
    my $shown = $volname // '';
    die "'$shown' is no name of a volume here: it is vm-VMID-NAME or base-VMID-NAME, NAME of letters, digits, '-' and '_'\n";
}

# Dies of a name that no snapshot of Proxmox VE has.
sub check_snapshot {
    my ($snapshot) = @_;
    return $snapshot if defined($snapshot) && $snapshot =~ m/\A[A-Za-z][A-Za-z0-9_-]{0,39}\z/;
    my $shown = $snapshot // '';
    die "'$shown' is no name of a snapshot: a letter, then up to 39 letters, digits, '-' and '_'\n";
}

# Value of the tag of a volume, or of one of its snapshots.
sub tag_value {
    my ($owner, $volname, $snapshot) = @_;
    return "$owner/$volname" . (defined($snapshot) ? "\@$snapshot" : '');
}

# Name on the array; a long one is shortened, and ends in a digest of the whole.
sub array_name {
    my ($owner, $volname, $snapshot) = @_;
    my $whole = "pve-$owner-$volname" . (defined($snapshot) ? ".$snapshot" : '');
    return $whole if length($whole) <= NAME_MAX;
    my $digest = substr(sha256_hex($whole), 0, DIGEST_LENGTH);
    return substr($whole, 0, NAME_MAX - DIGEST_LENGTH - 1) . "-$digest";
}

# Name of a node's host object on the array: readable, and unlike that of another cluster's node.
sub host_name {
    my ($node, $initiator) = @_;
    my $readable = substr($node =~ s/[^A-Za-z0-9-]/-/gr, 0, 40);
    return "pve-$readable-" . substr(sha256_hex($initiator), 0, DIGEST_LENGTH);
}

1;
