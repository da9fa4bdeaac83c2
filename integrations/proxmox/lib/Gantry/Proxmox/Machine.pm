# Side effects on the node: programs, sysfs, device files, links and the node's lock.
# SPDX-License-Identifier: AGPL-3.0-or-later
#
# Tests put a machine in memory in its place (Gantry::Proxmox::Initiator is all that decides).
package Gantry::Proxmox::Machine;

use strict;
use warnings;

use Errno qw(EBUSY EINTR ENOENT ENXIO);
use Fcntl qw(:flock O_EXCL O_NONBLOCK O_RDONLY O_WRONLY);
use File::Basename qw(dirname);
use File::Path qw(make_path);
use IO::Select;
use IPC::Open3 qw(open3);
use POSIX ();
use Time::HiRes ();

use constant {
    LOCK_FILE => '/run/lock/gantry-pve.lock',
    # Links to active volumes; emptied by every boot, as the devices are.
    LINK_FOLDER => '/dev/gantry',
    # Marks of storages that were reconciled since boot.
    MARK_FOLDER => '/run/gantry-pve',
    # Seconds for one program.
    PROGRAM_SECONDS => 30,
    PROGRAM_FOLDERS => '/usr/sbin:/usr/bin:/sbin:/bin',
    # Bytes of a program's output that are kept.
    OUTPUT_MAX => 1 << 20,
};

sub new { my ($class) = @_; return bless({}, $class) }

sub link_folder { return LINK_FOLDER }
sub mark_folder { return MARK_FOLDER }

# This node's name, without its domain.
sub node_name { return ((POSIX::uname())[1] =~ s/\..*//r) }

# Runs a program; returns its exit status and what it printed. Status 127: it cannot be run, 124: it took
# too long and was ended. Its arguments may hold a CHAP secret and are in no error.
sub run {
    my ($self, @words) = @_;
    my ($input, $output);
    local $SIG{PIPE} = 'IGNORE';
    local $ENV{PATH} = PROGRAM_FOLDERS;
    delete local @ENV{qw(IFS CDPATH ENV BASH_ENV)};
    my @clean = map { untaint($_) } @words;
    my $pid = eval { open3($input, $output, undef, @clean) };
    return (127, "$words[0] is not installed") if !$pid;
    close($input);
    my ($text, $ended) = read_until($output, Time::HiRes::time() + PROGRAM_SECONDS);
    kill('KILL', $pid) if !$ended;
    while (waitpid($pid, 0) == -1 && $! == EINTR) { next }
    return (124, "$words[0] did not end within " . PROGRAM_SECONDS . ' s') if !$ended;
    return ($? & 127 ? 128 + ($? & 127) : $? >> 8, $text);
}

# The daemons of Proxmox VE run in taint mode. No shell is involved, so a word may have any printable
# character; what words say is checked where they come from.
sub untaint {
    my ($text) = @_;
    return $1 if $text =~ m/\A([\x20-\x7e]*)\z/;
    die "a program's argument or a path has control characters or is not ASCII\n";
}

# What a handle gives until its end, and whether that came before the deadline.
sub read_until {
    my ($handle, $deadline) = @_;
    my $ready = IO::Select->new($handle);
    my $text = '';
    while ((my $left = $deadline - Time::HiRes::time()) > 0) {
        next if !$ready->can_read($left);
        my $count = sysread($handle, my $part, 65536);
        next if !defined($count) && $! == EINTR;
        return ($text, 1) if !$count;
        $text .= $part if length($text) < OUTPUT_MAX;
    }
    return ($text, 0);
}

# A file's content without white space at its ends; undef if it cannot be read.
sub read_file {
    my ($self, $path) = @_;
    open(my $handle, '<', $path) or return undef;
    local $/ = undef;
    my $text = readline($handle);
    close($handle);
    return defined($text) ? $text =~ s/\A\s+|\s+\z//gr : undef;
}

# Writes a text to a file that exists, in one piece, as sysfs wants it.
sub write_file {
    my ($self, $path, $text) = @_;
    sysopen(my $handle, untaint($path), O_WRONLY) or die "$path: $!\n";
    my $written = syswrite($handle, $text);
    die "$path: $!\n" if !defined($written);
    close($handle) or die "$path: $!\n";
    return;
}

# Names in a folder, sorted; none if there is no such folder.
sub list_folder {
    my ($self, $path) = @_;
    opendir(my $handle, $path) or return ();
    my @names = sort grep { $_ ne '.' && $_ ne '..' } readdir($handle);
    closedir($handle);
    return @names;
}

# Where a symbolic link leads; undef if it is none.
sub read_link { my ($self, $path) = @_; return readlink($path) }

# Whether a block device is there at the end of a path.
sub is_device { my ($self, $path) = @_; return -b $path ? 1 : 0 }

# Puts a link in the place of another one, or of nothing; never in the place of anything else.
sub put_link {
    my ($self, $target, $wanted) = @_;
    my $path = untaint($wanted);
    make_path(dirname($path));
    die "$path is no link, and was not made here\n" if -e $path && !-l $path;
    my $fresh = "$path.new.$$";
    unlink($fresh);
    symlink(untaint($target), $fresh) or die "$fresh: $!\n";
    rename($fresh, $path) or die "$path: $!\n";
    return;
}

sub remove_link {
    my ($self, $wanted) = @_;
    my $path = untaint($wanted);
    return if !-l $path || unlink($path) || $! == ENOENT;
    die "$path: $!\n";
}

# Whether a mark is there; and making one.
sub has_mark { my ($self, $name) = @_; return -e MARK_FOLDER . "/$name" ? 1 : 0 }

sub put_mark {
    my ($self, $name) = @_;
    make_path(MARK_FOLDER);
    open(my $handle, '>', untaint(MARK_FOLDER . "/$name")) or die MARK_FOLDER . "/$name: $!\n";
    return close($handle);
}

# Whether somebody uses a block device (/dev/NAME): a mount or device mapper, which claim it, or a
# process that has it open, as QEMU does without a claim.
sub is_busy {
    my ($self, $device) = @_;
    if (sysopen(my $handle, $device, O_RDONLY | O_EXCL | O_NONBLOCK)) {
        close($handle);
    } else {
        return 1 if $! == EBUSY;
        return 0 if $! == ENXIO || $! == ENOENT;
        die "$device: $!\n";
    }
    for my $opened (glob('/proc/[0-9]*/fd/*')) {
        my $path = readlink($opened);
        return 1 if defined($path) && $path eq $device;
    }
    return 0;
}

# Runs code while no other process of this node does so.
sub locked {
    my ($self, $code) = @_;
    open(my $handle, '>', LOCK_FILE) or die LOCK_FILE . ": $!\n";
    flock($handle, LOCK_EX) or die LOCK_FILE . ": $!\n";
    my @result = eval { $code->() };
    my $error = $@;
    close($handle);
    die $error if $error;
    return wantarray ? @result : $result[0];
}

sub pause { my ($self, $seconds) = @_; return Time::HiRes::sleep($seconds) }
sub now { return Time::HiRes::time() }

# Copies a device to a handle, or a handle to a device without the zeros of a new volume.
sub copy_out {
    my ($self, $device, $handle) = @_;
    return PVE::Tools::run_command(
        ['dd', "if=$device", 'bs=1M', 'status=progress'],
        output => '>&' . fileno($handle), errfunc => sub { print STDERR "$_[0]\n" },
    );
}

sub copy_in {
    my ($self, $handle, $device) = @_;
    return PVE::Tools::run_command(
        ['dd', "of=$device", 'bs=1M', 'conv=sparse,fsync', 'iflag=fullblock'], input => '<&' . fileno($handle));
}

1;
