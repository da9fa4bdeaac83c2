# Life of volumes through the real PVE::Storage against a running gantryd: every method of the plugin.
# SPDX-License-Identifier: AGPL-3.0-or-later
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib", "$Bin/../lib";
use Test::More;

use Fake::Lab;

my $plugin = 'PVE::Storage::Custom::GantryPlugin';
my $lab = Fake::Lab->new('2G');
my $owner = $lab->owner();
like($owner, qr/\A[0-9a-f]{8}\z/, 'a storage has a mark of its own');
ok($lab->{cfg}->{ids}->{san}->{shared}, 'the storage is shared');
ok(!exists($lab->{cfg}->{ids}->{san}->{password}), 'the token is not in storage.cfg');
is((stat("$lab->{secrets}/san.gantry-token"))[2] & 0777, 0600, 'the token is readable by root only');
is_deeply($plugin->get_formats($lab->{cfg}->{ids}->{san}, 'san'), { default => 'raw', valid => { raw => 1 } }, 'formats');
like($plugin->get_identity($lab->{cfg}->{ids}->{san}, 'san'), qr{\Aiqn\..*/[0-9a-f]{32}\z}, 'identity');

# Space
my $info = $lab->call('storage_info');
ok($info->{san}->{active} && $info->{san}->{total} > 1 << 30 && $info->{san}->{avail} > 1 << 30, 'space') or diag explain $info;

# A volume
my $disk = $lab->call('vdisk_alloc', 'san', 100, 'raw', undef, 16384);
is($disk, 'san:vm-100-disk-0', 'the first disk');
is($lab->volumes()->{"pve-$owner-vm-100-disk-0"}->{tags}->{'pve.volume'}, "$owner/vm-100-disk-0", 'its tag');
is($lab->call('vdisk_alloc', 'san', 100, 'raw', 'vm-100-cloudinit', 528), 'san:vm-100-cloudinit', 'a name of its own');
is(scalar($lab->call('volume_size_info', 'san:vm-100-cloudinit')), 528 * 1024, 'sizes are exact to 4 KiB');
is($lab->call('vdisk_alloc', 'san', 100, 'raw', undef, 4096), 'san:vm-100-disk-1', 'the second disk');
like($lab->fails('vdisk_alloc', 'san', 100, 'raw', 'vm-100-disk-1', 4096), qr/already exists/, 'a name that is taken');
like($lab->fails('vdisk_alloc', 'san', 100, 'qcow2', undef, 4096), qr/volumes are raw/, 'another format');
is_deeply([sort map { $_->{volid} } @{ $lab->call('vdisk_list', 'san', 100)->{san} }],
    [qw(san:vm-100-cloudinit san:vm-100-disk-0 san:vm-100-disk-1)], 'list');
is(scalar(@{ $lab->call('volume_list', 'san', 100, 'images') }), 3, 'list of the content images');

# Active with multipath and CHAP
my $node = $lab->node('pve1');
is($lab->path($disk), "/dev/gantry/$owner/vm-100-disk-0", 'the path is known before it is active');
$lab->call('activate_volumes', [$disk]);
is(scalar(keys %{ $node->{sessions} }), 2, 'a session over each portal');
my ($map) = values %{ $node->{maps} };
is(scalar(keys %{ $map->{slaves} }), 2, 'a multipath map over both');
my $naa = $lab->volumes()->{"pve-$owner-vm-100-disk-0"}->{naa};
is($node->{links}->{ $lab->path($disk) }, '/dev/disk/by-id/dm-uuid-mpath-3' . ($naa =~ s/^naa\.//r), 'the path leads to the identifier');
my ($host) = @{ $lab->{array}->json('host', 'list') };
is($host->{chap_user}, 'iqn.1993-08.org.debian:01:pve1', 'the node logs in with CHAP');
$lab->call('activate_volumes', [$disk]);
is(scalar(keys %{ $node->{sessions} }), 2, 'active again changes nothing');

# Snapshots
$lab->put($disk, 'one');
$lab->call('volume_snapshot', $disk, 'before');
like($lab->fails('volume_snapshot', $disk, 'before'), qr/already/, 'a snapshot that exists');
$lab->put($disk, 'two');
$lab->call('volume_snapshot', $disk, 'later');
$lab->put($disk, 'three');
is_deeply([sort keys %{ $lab->call('volume_snapshot_info', $disk) }], [qw(before later)], 'snapshots');
$lab->call('activate_volumes', [$disk], 'before');
is($lab->get($disk, 'before'), 'one', 'a snapshot is read');
isnt(($node->io($lab->path($disk, 'before')))[0]->write_block(($node->io($lab->path($disk, 'before')))[1], 0, 'x'), 0, 'and not written');
$lab->call('deactivate_volumes', [$disk], 'before');
is($lab->get($disk), 'three', 'the volume goes on');
$lab->call('volume_snapshot_rollback', $disk, 'before');
is(scalar(keys %{ $node->{disks} }), 0, 'a rollback leaves no disk with what Linux had read');
$lab->call('activate_volumes', [$disk]);
is($lab->get($disk), 'one', 'rolled back over a later snapshot');
$lab->call('deactivate_volumes', [$disk]);
$lab->call('volume_snapshot_rollback', $disk, 'later');
$lab->call('activate_volumes', [$disk]);
is($lab->get($disk), 'two', 'and forward');
$lab->call('volume_snapshot_delete', $disk, 'later');
$lab->call('volume_snapshot_delete', $disk, 'later');
like($lab->fails('volume_snapshot_rollback', $disk, 'later'), qr/no snapshot 'later'/, 'a snapshot that is gone');

# Size, online
is($lab->call('volume_resize', $disk, 32 << 20, 1), undef, 'resize');
is(($node->io($lab->path($disk)))[2]->{size}, 32 << 20, 'the node has read the new size');
like($lab->fails('volume_resize', $disk, 1 << 20, 1), qr/only grow/, 'not smaller');
is_deeply([($lab->call('volume_size_info', $disk))[0, 1]], [32 << 20, 'raw'], 'size');

# A clone of a snapshot, a template, linked clones
my $clone = $lab->call('vdisk_clone', $disk, 101, 'before');
is($clone, 'san:vm-101-disk-0', 'a clone of a snapshot');
$lab->call('activate_volumes', [$clone]);
is($lab->get($clone), 'one', 'with its content');
like($lab->fails('vdisk_clone', $disk, 102), qr/only base images/, 'no clone of a volume in use');
like($lab->fails('vdisk_create_base', $disk), qr/has snapshots/, 'no template with snapshots');
$lab->call('volume_snapshot_delete', $disk, 'before');
is($lab->get($clone), 'one', 'the clone needs no snapshot');
my $base = $lab->call('vdisk_create_base', $disk);
is($base, 'san:base-100-disk-0', 'a template');
my @linked = map { $lab->call('vdisk_clone', $base, $_) } 110 .. 112;
is_deeply(\@linked, [map { "san:vm-$_-disk-0" } 110 .. 112], 'linked clones');
$lab->call('activate_volumes', [$base, @linked]);
is($lab->get($_), 'two', "content of $_") for $base, @linked;
$lab->put($linked[0], 'own');
is($lab->get($linked[1]), 'two', 'clones are apart');
$lab->call('deactivate_volumes', [$base]);
$lab->call('vdisk_free', $base);
is($lab->get($linked[2]), 'two', 'clones need no template');
ok($lab->call('volume_has_feature', 'clone', $clone, 'snap') && !$lab->call('volume_has_feature', 'clone', $clone), 'features');

# A name of another guest
is($lab->call('rename_volume', 'san:vm-100-disk-1', 120), 'san:vm-120-disk-0', 'reassigned');
like($lab->fails('rename_volume', 'san:vm-120-disk-0', 101, 'vm-101-disk-0'), qr/already exists/, 'not over another volume');

# Export and import
my $small = $lab->call('vdisk_alloc', 'san', 111, 'raw', 'vm-111-efi', 528);
$lab->call('activate_volumes', [$small]);
$lab->put($small, 'efi');
$plugin->volume_export($lab->{cfg}->{ids}->{san}, 'san', my $file = tempfile(), 'vm-111-efi', 'raw+size');
ok(defined($node->{links}->{ $lab->path($small) }), 'what was active stays so');
seek($file, 0, 0);
is($plugin->volume_import($lab->{cfg}->{ids}->{san}, 'san', $file, 'vm-130-disk-0', 'raw+size'), 'san:vm-130-disk-0', 'export and import');
$lab->call('activate_volumes', ['san:vm-130-disk-0']);
is($lab->get('san:vm-130-disk-0'), 'efi', 'the content went along');
is_deeply([$plugin->volume_export_formats($lab->{cfg}->{ids}->{san}, 'san', 'vm-111-disk-0', undef, undef, 1)], [], 'not with snapshots');

# Nothing is left
$lab->call('vdisk_free', $_->{volid}) for @{ $lab->call('vdisk_list', 'san')->{san} };
is_deeply([keys %{ $lab->volumes() }], [], 'no volume is left');
is_deeply($lab->{array}->json('snapshot', 'list'), [], 'no snapshot is left');
is_deeply([map { scalar(keys %{ $node->{$_} }) } qw(disks maps links sessions)], [0, 0, 0, 0], 'the node has no disk, map, link or session left');
my $text = join("\n", @{ $lab->{lines} });
my $secret = do { open(my $h, '<', "$lab->{secrets}/gantry.chap-key") or die; readline($h) };
ok(index($text, $lab->{token}) < 0 && index($text, $secret =~ s/\s+//r) < 0 && $text =~ m/--value \*\*\*/, 'nothing secret is in the transcript');
$plugin->on_delete_hook('san', $lab->{cfg}->{ids}->{san});
ok(!-e "$lab->{secrets}/san.gantry-token", 'the token goes with the storage');
done_testing();

sub tempfile { open(my $handle, '+>', undef) or die "$!"; return $handle }
