#!/usr/bin/perl -T
# Programs, files, links and locks of a real machine, in taint mode as the daemons of Proxmox VE run.
# SPDX-License-Identifier: AGPL-3.0-or-later
use strict;
use warnings;

my $here;
BEGIN { ($here) = __FILE__ =~ m{\A(.*)/[^/]*\z} }
use lib "$here/../lib";
use File::Temp qw(tempdir);
use Scalar::Util qw(tainted);
use Test::More;

use Gantry::Proxmox::Machine;

my $machine = Gantry::Proxmox::Machine->new();
my $empty = substr("$ENV{PATH}$0", 0, 0);
ok(tainted($empty), 'taint mode');
my $folder = tempdir('gantry-machine-XXXXXX', DIR => '/tmp', CLEANUP => 1) . $empty;

is_deeply([$machine->run("echo$empty", 'a b', "c;d$empty", '$HOME')], [0, "a b c;d \$HOME\n"], 'arguments go as they are');
is(($machine->run('sh', '-c', 'exit 7'))[0], 7, 'an exit status');
like(($machine->run('sh', '-c', 'echo wrong >&2; exit 1'))[1], qr/wrong/, 'with what it printed on standard error');
is(($machine->run('sh', '-c', 'kill -9 $$'))[0], 128 + 9, 'a signal');
is(($machine->run('no-such-program-here'))[0], 127, 'a program that is not installed');
ok(!eval { $machine->run('echo', "a\nb"); 1 }, 'no control characters');
is(length(($machine->run('head', '-c', 3 << 20, '/dev/zero'))[1]) <= 2 << 20, 1, 'output is bounded');

open(my $file, '>', ($folder =~ m/(.*)/)[0] . '/attribute') or die "$!";
close($file);
$machine->write_file("$folder/attribute", "1\n");
is($machine->read_file("$folder/attribute"), '1', 'a file is written and read');
ok(!eval { $machine->write_file("$folder/other", '1'); 1 }, 'a file that is not there is not made');
is($machine->read_file("$folder/other"), undef, 'nor read');
is_deeply([$machine->list_folder($folder)], ['attribute'], 'a folder');
is_deeply([$machine->list_folder("$folder/none")], [], 'a folder that is not there');

$machine->put_link("/dev/null$empty", "$folder/owner/vm-1-disk-0");
is($machine->read_link("$folder/owner/vm-1-disk-0"), '/dev/null', 'a link');
$machine->put_link('/dev/zero', "$folder/owner/vm-1-disk-0");
is($machine->read_link("$folder/owner/vm-1-disk-0"), '/dev/zero', 'takes the place of another one');
ok(!eval { $machine->put_link('/dev/zero', "$folder/attribute"); 1 }, 'and of nothing else');
ok(!eval { $machine->remove_link("$folder/attribute"); -e "$folder/attribute" ? 0 : 1 }, 'what is no link is not removed');
$machine->remove_link("$folder/owner/vm-1-disk-0") for 1 .. 2;
is_deeply([$machine->list_folder("$folder/owner")], [], 'a link is removed, also twice');

ok($machine->is_busy("$folder/attribute") == 0, 'nobody has it open');
open(my $open, '<', "$folder/attribute") or die "$!";
ok($machine->is_busy("$folder/attribute"), 'a process has it open, as QEMU has a disk');
close($open);
is($machine->is_busy("$folder/none"), 0, 'what is not there is not busy');

SKIP: {
    skip('the lock is of root', 2) if !-w '/run/lock';
    my @result = $machine->locked(sub { return (1, 2) });
    is_deeply(\@result, [1, 2], 'a lock returns what the code does');
    ok(!eval { $machine->locked(sub { die "inside\n" }); 1 } && $@ eq "inside\n", 'and dies as it does');
}
done_testing();
