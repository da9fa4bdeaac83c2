# Nodes against one array: overlapping calls, failover, foreign volumes, faults of array, token and pool.
# SPDX-License-Identifier: AGPL-3.0-or-later
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib", "$Bin/../lib";
use Test::More;
use Time::HiRes qw(sleep time);

use Fake::Lab;

my $plugin = 'PVE::Storage::Custom::GantryPlugin';
my $lab = Fake::Lab->new('1G');
my $owner = $lab->owner();

# Eight processes on two nodes allocate disks of one guest without the cluster's lock.
my @made = parallel(8, sub { $lab->node('pve' . (1 + $_[0] % 2)); return map { $lab->call('vdisk_alloc', 'san', 100, 'raw', undef, 1024) } 1 .. 4 });
is_deeply([sort @made], [sort map { "san:vm-100-disk-$_" } 0 .. 31], 'the same guest at once: 32 disks, each once');
is(scalar(keys %{ $lab->volumes() }), 32, 'and the array has as many');
is(scalar(@{ $lab->call('vdisk_list', 'san', 100)->{san} }), 32, 'all are listed');

# The same name at once: one wins.
my @named = parallel(4, sub { return eval { $lab->call('vdisk_alloc', 'san', 101, 'raw', 'vm-101-state-x', 1024) } // "no: $@" });
is(scalar(grep { $_ eq 'san:vm-101-state-x' } @named), 1, 'the same name at once: one wins') or diag explain \@named;
is(scalar(grep { m/already exists/ } @named), 3, 'the others are told');

# Volumes of others in the pool
$lab->{array}->gantry('volume', 'create', "p/$_", '--size', '1M') for 'vm-102-disk-0', "pve-$owner-vm-102-disk-0", 'pve-00000000-vm-102-disk-1';
$lab->add('other', $lab->{token});
is($lab->call('vdisk_alloc', 'other', 102, 'raw', undef, 1024), 'other:vm-102-disk-0', 'another storage on the pool has names of its own');
is_deeply($lab->call('vdisk_list', 'san', 102)->{san}, [], 'foreign volumes are not listed');
like($lab->fails('vdisk_free', 'san:vm-102-disk-0'), qr/does not exist/, 'nor deleted');
like($lab->fails('activate_volumes', ['san:vm-102-disk-0']), qr/does not exist/, 'nor activated');
my $foreign = $lab->volumes()->{"pve-$owner-vm-102-disk-0"};
$lab->{array}->gantry('volume', 'tag', "p/pve-$owner-vm-102-disk-0", 'made=by-hand');
is($lab->call('vdisk_alloc', 'san', 102, 'raw', undef, 1024), 'san:vm-102-disk-1', 'a name that an administrator took is passed by');
is($lab->volumes()->{"pve-$owner-vm-102-disk-0"}->{naa}, $foreign->{naa}, 'and what has it is left alone');
$lab->{array}->gantry('volume', 'rename', "p/pve-$owner-vm-102-disk-1", 'renamed-by-hand');
is(scalar($lab->call('volume_size_info', 'san:vm-102-disk-1')), 1 << 20, 'a volume that an administrator renamed is found');
$lab->call('vdisk_free', 'san:vm-102-disk-1');
ok(!$lab->volumes()->{'renamed-by-hand'}, 'and deleted');
my $begun = @{ $lab->{lines} };
is($lab->call('vdisk_alloc', 'san', 103, 'raw', undef, 2048), 'san:vm-103-disk-0', 'a volume');
$lab->call('volume_snapshot', 'san:vm-103-disk-0', 'tagged');
my @changes = grep { m{(?:POST|PUT|PATCH|DELETE) .*/v1/} } @{ $lab->{lines} }[$begun .. $#{ $lab->{lines} }];
is(scalar(@changes), 2, 'a volume and its snapshot take one change each, tags and all') or diag explain \@changes;
$lab->call('volume_snapshot_delete', 'san:vm-103-disk-0', 'tagged');

# Wrong names
for my $name ('vm-100-../../x', 'vm-100-', 'vm-0100-disk-0', "vm-100-disk-0\n", 'vm-100-a/b', 'disk', 'vm-100-disk@0', 'subvol-100-disk-0', 'vm-100-d*') {
    ok(!eval { $plugin->free_image('san', $lab->{cfg}->{ids}->{san}, $name, 0, 'raw'); 1 } && $@ =~ m/no name of a volume/, 'wrong name ' . ($name =~ s/\n/\\n/r));
}
like($lab->fails('vdisk_alloc', 'san', 100, 'raw', 'vm-101-disk-7', 1024), qr/must begin with 'vm-100-'/, 'the name of another guest');
like($lab->fails('volume_snapshot', 'san:vm-103-disk-0', $_), qr/no name of a snapshot/, "wrong snapshot '$_'") for 'a@b', '../x', 'a' x 41, '';
my $long = 'san:vm-999999999-state-' . 'x' x 40;
is($lab->call('vdisk_alloc', 'san', 999999999, 'raw', $long =~ s/^san://r, 1024), $long, 'a long name');
$lab->call('volume_snapshot', $long, $_ x 40) for 'y', 'z';
is_deeply([sort keys %{ $lab->call('volume_snapshot_info', $long) }], ['y' x 40, 'z' x 40], 'with long snapshots');
$lab->call('vdisk_free', $long);

# Live migration: both nodes have the volume; the source lets go
my $disk = 'san:vm-100-disk-0';
my $pve1 = $lab->node('pve1');
$lab->call('activate_volumes', [$disk, 'san:vm-100-disk-1']);
$lab->put($disk, 'of pve1');
my $pve2 = $lab->node('pve2');
$lab->call('activate_volumes', [$disk]);
is($lab->get($disk), 'of pve1', 'the target sees what the source wrote');
like($lab->fails('vdisk_free', $disk), qr/still active on 'pve-pve1-/, 'what is active elsewhere is not deleted');
$lab->call('activate_volumes', [$disk]);
$lab->put($disk, 'of pve2');
$lab->node('pve1');
$lab->call('deactivate_volumes', [$disk]);
is(scalar(keys %{ $pve1->{disks} }), 2, 'the source keeps its other volume');
$lab->node('pve2');
is($lab->get($disk), 'of pve2', 'the target goes on');

# A LUN number that becomes another volume while Linux keeps the old disk
$lab->node('pve1');
my ($kept) = sort { $a->{name} cmp $b->{name} } values %{ $pve1->{disks} };
my ($host1) = grep { $_ =~ m/^pve-pve1/ } map { $_->{host} } map { @{ $_->{maps} } } values %{ $lab->volumes() };
$lab->{array}->gantry('volume', 'unmap', "p/pve-$owner-vm-100-disk-1", '--host', $host1);
my $old_naa = $kept->{naa};
$lab->call('activate_volumes', ['san:vm-100-disk-2']);
my ($session, $lun, $new) = $pve1->io($lab->path('san:vm-100-disk-2'));
is($session->naa($lun), $lab->volumes()->{"pve-$owner-vm-100-disk-2"}->{naa}, 'the volume is itself, whatever disks are left');
# The stale disk takes its number by force.
$pve1->{disks}->{"$_->{sid}:0:0:99"} = { %$_, naa => $old_naa, name => "$_->{name}x", lun => 99 } for values %{ $pve1->{disks} };
# And the map of its volume holds it, as after a deactivation that was interrupted.
my %stale = map { $_->{name} => 1 } grep { $_->{lun} == 99 } values %{ $pve1->{disks} };
$pve1->{maps}->{'dm-99'} = { naa => 'naa.6' . '0' x 31, slaves => \%stale };
my @warnings;
{
    local $SIG{__WARN__} = sub { push @warnings, @_ };
    $lab->{array}->gantry('volume', 'map', "p/pve-$owner-vm-100-disk-3", '--host', $host1, '--lun', '99');
    $lab->call('activate_volumes', ['san:vm-100-disk-3']);
}
ok((grep { m/is \Q$old_naa\E at the LUN number/ } @warnings), 'a stale disk at the number is removed first') or diag explain \@warnings;
is(scalar(grep { $_->{lun} == 99 && $_->{naa} eq $old_naa } values %{ $pve1->{disks} }), 0, 'and gone');
ok(!$pve1->{maps}->{'dm-99'}, 'with the map that held it');
$pve1->{busy}->{'/dev/' . $pve1->map_node($lab->volumes()->{"pve-$owner-vm-100-disk-3"}->{naa})} = 1;
like($lab->fails('deactivate_volumes', ['san:vm-100-disk-3']), qr/failed/, 'a volume in use stays');
is($lab->get('san:vm-100-disk-3'), '', 'and works');
$pve1->{busy} = {};

# A node that died: its guest moved, and its maps do not stand in the way
$lab->call('volume_snapshot', 'san:vm-100-disk-3', 'backup');
$lab->call('activate_volumes', ['san:vm-100-disk-3'], 'backup');
$lab->node('pve2');
$lab->call('deactivate_volumes', ['san:vm-100-disk-2']);
$pve1->reboot();
sleep(0.2);
$lab->call('vdisk_free', 'san:vm-100-disk-2');
ok(!$lab->volumes()->{"pve-$owner-vm-100-disk-2"}, 'a volume of a node that is gone is deleted');
$lab->node('pve1');
$lab->call('activate_storage', 'san');
is(scalar(grep { $_->{host} eq $host1 } map { @{ $_->{maps} } } values %{ $lab->volumes() }), 0, 'after its boot no volume is mapped to the node');
is_deeply([map { @{ $_->{hosts} } } @{ $lab->{array}->json('snapshot', 'list') }], [], 'and no snapshot');
$lab->call('vdisk_free', 'san:vm-100-disk-3');
is_deeply($lab->{array}->json('snapshot', 'list'), [], 'a volume is deleted with its snapshots');

# Without multipathd, and without multipath
$pve1->{multipathd} = 0;
like($lab->fails('activate_volumes', [$disk]), qr/multipathd does not run/, 'multipath is not given up silently');
$lab->{cfg}->{ids}->{san}->{'gantry-multipath'} = 0;
$lab->call('activate_volumes', [$disk]);
is(scalar(keys %{ $pve1->{sessions} }), 1, 'one path where that is wanted');
like($pve1->{links}->{ $lab->path($disk) }, qr{/wwn-0x60}, 'by its identifier');
$lab->call('deactivate_volumes', [$disk]);
delete $lab->{cfg}->{ids}->{san}->{'gantry-multipath'};
$pve1->{multipathd} = 1;

# A clone while its source is deleted
$lab->call('vdisk_alloc', 'san', 200, 'raw', undef, 4096);
my $base = $lab->call('vdisk_create_base', 'san:vm-200-disk-0');
my @outcomes = parallel(4, sub {
    return eval { $lab->call('vdisk_free', $base); 'freed' } // "no: $@" if $_[0] == 3;
    return map { eval { $lab->call('vdisk_clone', $base, 201 + $_[0]) } // "no: $@" } 1 .. 4;
});
is(scalar(grep { $_ eq 'freed' } @outcomes), 1, 'a source is deleted while it is cloned') or diag explain \@outcomes;
is_deeply([grep { !m/\A(?:freed|san:vm-20[123]-disk-[0-3]|no: .*(?:does not exist|no volume named).*)\s*\z/s } @outcomes], [], 'clones are made, or told that there is no source');
is(scalar(grep { m/vm-20[123]/ } keys %{ $lab->volumes() }), scalar(grep { m/\Asan:/ } @outcomes), 'and nothing half-made is left');

# The daemon restarts again and again while disks are made and cloned
my $source = $lab->call('vdisk_create_base', $lab->call('vdisk_alloc', 'san', 300, 'raw', undef, 1024));
my $maker = open(my $made_there, '-|') // die "fork: $!";
if (!$maker) {
    $lab->{array}->{owner} = 0;
    for my $number (1 .. 40) {
        my $made = eval { $number % 2 ? $lab->call('vdisk_clone', $source, 301) : $lab->call('vdisk_alloc', 'san', 301, 'raw', undef, 1024) };
        print $made // "no: $@", $made ? "\n" : '';
    }
    close(STDOUT);
    POSIX::_exit(0);
}
for (1 .. 4) {
    sleep(0.3);
    $lab->{array}->stop();
    sleep(0.2);
    $lab->{array}->resume();
}
my @during = readline($made_there);
# A daemon that stops refuses a change that is under way ('pool-unavailable'): nothing was made, and whoever
# asked is told.
my @closed = grep { m/\Ano: .*the pool (?:is|was) closed/ } @during;
is(scalar(@during), 40, 'calls outlive restarts of the daemon');
is_deeply([grep { m/\Ano: / && !m/the pool (?:is|was) closed/ } @during], [], 'or are refused by a daemon that stops');
my $made = @during - @closed;
my $known = @{ $lab->call('vdisk_list', 'san', 301)->{san} };
ok($known >= $made && $known <= 40, "no volume is lost or made twice: $made made, $known listed");
my $left = grep { m/vm-301-/ && !%{ $lab->volumes()->{$_}->{tags} } } keys %{ $lab->volumes() };
is($left, 0, 'nothing is left without a tag');

# 100 volumes
$lab->call('vdisk_alloc', 'san', 400, 'raw', undef, 1024) for 1 .. 100;
my $before = @{ $lab->{lines} };
my $list = $lab->call('vdisk_list', 'san', 400)->{san};
my @asked = grep { m{/v1/volumes} } @{ $lab->{lines} }[$before .. $#{ $lab->{lines} }];
is(scalar(@$list), 100, '100 volumes');
is(scalar(@asked), 1, 'are listed by one request');
my $listed = time();
$lab->call('vdisk_list', 'san') for 1 .. 5;
diag(sprintf('list of %d volumes: %.1f ms', scalar(keys %{ $lab->volumes() }), (time() - $listed) * 200));

# A full pool
$lab->{cfg}->{ids}->{san}->{'gantry-thick'} = 1;
like($lab->fails('vdisk_alloc', 'san', 500, 'raw', undef, 2 << 20), qr/space/, 'a full pool says so');
is(scalar(grep { m/vm-500/ } keys %{ $lab->volumes() }), 0, 'and nothing is left');
delete $lab->{cfg}->{ids}->{san}->{'gantry-thick'};

# Tokens
my ($viewer) = $lab->{array}->token('viewer');
like(eval { $lab->add('weak', $viewer) } // $@, qr/role viewer/, 'a token that is too narrow');
my ($admin) = $lab->{array}->token('admin');
my @told;
{ local $SIG{__WARN__} = sub { push @told, @_ }; $lab->add('wide', $admin); }
like("@told", qr/operator suffices/, 'a token that is too wide');
like(eval { $lab->add('wrong', 'nonsense') } // $@, qr/refuses the token/, 'a token that is none');
ok(!-e "$lab->{secrets}/wrong.gantry-token", 'is not kept');
$lab->{array}->gantry('token', 'delete', $lab->{token_id});
my $revoked = $lab->fails('vdisk_alloc', 'san', 600, 'raw', undef, 1024);
like($revoked, qr/refuses the token.*token create.*pvesm set/s, 'a revoked token: what to do');
unlike($revoked, qr/\Q$lab->{token}\E/, 'without the token');
my ($fresh) = $lab->{array}->token('operator');
$plugin->on_update_hook_full('san', $lab->{cfg}->{ids}->{san}, {}, undef, { password => $fresh });
is($lab->call('vdisk_alloc', 'san', 600, 'raw', undef, 1024), 'san:vm-600-disk-0', 'a new token is used at once');
ok(!eval { $plugin->on_update_hook_full('san', $lab->{cfg}->{ids}->{san}, {}, undef, { password => 'bad' }); 1 }, 'a wrong one is refused');
is($lab->call('vdisk_alloc', 'san', 600, 'raw', undef, 1024), 'san:vm-600-disk-1', 'and the good one stays');

# The array's certificate
my ($fingerprint) = `openssl s_client -connect $lab->{array}->{https} </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256` =~ m/=(\S+)/;
my %tls = ('gantry-url' => "https://$lab->{array}->{https}");
my $untrusted = eval { $lab->add('tls', $fresh, %tls); 1 } ? '' : $@;
like($untrusted, qr/certificate/i, 'a certificate that nobody signed');
my $other = ($fingerprint // '') =~ s/\A../00/r;
my $mismatch = eval { $lab->add('tls', $fresh, %tls, 'gantry-fingerprint' => $other); 1 } ? '' : $@;
like($mismatch, qr/fingerprint|certificate/i, 'and one of another fingerprint');
ok(eval { $lab->add('tls', $fresh, %tls, 'gantry-fingerprint' => $fingerprint); 1 }, 'its fingerprint makes it good') or diag $@;
like(eval { $lab->add('open', $fresh, 'gantry-url' => 'http://192.0.2.1:8480'); 1 } // $@, qr/use https/, 'no token without TLS');

# An array that is away
$lab->{array}->stop();
my $began = time();
like($lab->fails('activate_storage', 'san'), qr/not online|does not answer/, 'an array that is away');
ok(time() - $began < 20, 'is told soon');
ok(eval { $plugin->on_update_hook_full('san', $lab->{cfg}->{ids}->{san}, { disable => 1 }, undef, {}); 1 }, 'its storage can be disabled');
done_testing();

# Runs the code in so many processes at once, each with its number, and returns all that they return.
sub parallel {
    my ($count, $code) = @_;
    my @pipes = map {
        my $number = $_;
        my $pid = open(my $handle, '-|') // die "fork: $!";
        if (!$pid) {
            $lab->{array}->{owner} = 0;
            my @result = eval { $code->($number) };
            @result = ("no: $@") if $@;
            print map { s/\n/ /gr . "\n" } @result;
            close(STDOUT);
            POSIX::_exit(0);
        }
        $handle;
    } 0 .. $count - 1;
    return map { my $handle = $_; my @lines = readline($handle); chomp(@lines); @lines } @pipes;
}
