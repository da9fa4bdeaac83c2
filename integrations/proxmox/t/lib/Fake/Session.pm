# An iSCSI session (RFC 7143) in user space: login with CHAP, INQUIRY, READ CAPACITY, READ and WRITE.
# SPDX-License-Identifier: AGPL-3.0-or-later
package Fake::Session;

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use IO::Socket::INET;

# portal, target, initiator, chap (undef, or user and secret).
sub new {
    my ($class, %o) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => $o{portal}, Proto => 'tcp', Timeout => 10) or die "no connection to $o{portal}: $@\n";
    my $self = bless({ socket => $socket, cmdsn => 1, statsn => 0, itt => 1, isid => pack('C6', 0x80, map { int(rand(256)) } 1 .. 5) }, $class);
    $self->login(%o);
    return $self;
}

sub login {
    my ($self, %o) = @_;
    my $names = { InitiatorName => $o{initiator}, TargetName => $o{target}, SessionType => 'Normal' };
    if ($o{chap}) {
        $self->login_step(0, { %$names, AuthMethod => 'CHAP' });
        my $offer = $self->login_step(0, { CHAP_A => 5 });
        my $challenge = pack('H*', $offer->{CHAP_C} =~ s/\A0x//ir);
        my $response = md5_hex(pack('C', $offer->{CHAP_I}) . $o{chap}->{secret} . $challenge);
        $self->login_step(0x81, { CHAP_N => $o{chap}->{user}, CHAP_R => "0x$response" });
        $names = {};
    }
    $self->login_step(0x87, {
        %$names, HeaderDigest => 'None', DataDigest => 'None', InitialR2T => 'No', ImmediateData => 'Yes',
        MaxRecvDataSegmentLength => 65536, ErrorRecoveryLevel => 0,
    });
    return;
}

sub login_step {
    my ($self, $flags, $pairs) = @_;
    my $text = join('', map { "$_=$pairs->{$_}\0" } sort keys %$pairs);
    my $header = pack('CCCC', 0x43, $flags, 0, 0) . pack('N', length($text)) . $self->{isid} . pack('n', 0)
        . pack('N', 0) . pack('nn', 0, 0) . pack('NN', $self->{cmdsn}, $self->{statsn}) . "\0" x 16;
    $self->send_pdu($header, $text);
    my ($answer, $data) = $self->receive();
    my ($class, $detail) = unpack('x36 CC', $answer);
    die "login refused: class $class, detail $detail\n" if $class != 0;
    $self->{statsn} = unpack('x24 N', $answer) + 1;
    return { map { split(m/=/, $_, 2) } grep { length } split(m/\0/, $data) };
}

sub send_pdu {
    my ($self, $header, $data) = @_;
    my $pdu = $header . $data . "\0" x (-length($data) % 4);
    die "header\n" if length($header) != 48;
    $self->{socket}->syswrite($pdu) == length($pdu) or die "the connection is gone\n";
    return;
}

sub receive {
    my ($self) = @_;
    my $header = $self->exactly(48);
    my $length = unpack('N', "\0" . substr($header, 5, 3));
    my $data = $self->exactly($length + (-$length % 4));
    return ($header, substr($data, 0, $length));
}

sub exactly {
    my ($self, $count) = @_;
    my $text = '';
    while (length($text) < $count) {
        my $read = sysread($self->{socket}, $text, $count - length($text), length($text));
        die "the connection is gone\n" if !$read;
    }
    return $text;
}

# (status, data) of a command; a unit attention is tried again.
sub command {
    my ($self, $lun, $cdb, $expected, $data) = @_;
    my ($status, $answer);
    for (1 .. 4) {
        ($status, $answer) = $self->command_once($lun, $cdb, $expected, $data);
        return ($status, $answer) if $status != 2;
    }
    return ($status, $answer);
}

sub command_once {
    my ($self, $lun, $cdb, $expected, $data) = @_;
    my $itt = $self->{itt}++;
    my $flags = 0x81 | (defined($data) ? 0x20 : $expected ? 0x40 : 0);
    my $field = pack('n', $lun > 255 ? $lun | 0x4000 : $lun) . "\0" x 6;
    my $header = pack('CCCC', 0x01, $flags, 0, 0) . pack('N', length($data // '')) . $field
        . pack('NNNN', $itt, $expected, $self->{cmdsn}++, $self->{statsn}) . $cdb . "\0" x (16 - length($cdb));
    $self->send_pdu($header, $data // '');
    my $read = '';
    while (1) {
        my ($answer, $text) = $self->receive();
        my ($opcode, $flag, undef, $status) = unpack('CCCC', $answer);
        $opcode &= 0x3f;
        if ($opcode == 0x20 && unpack('x20 N', $answer) != 0xffffffff) {
            $self->send_pdu(pack('CCCC', 0x40, 0x80, 0, 0) . pack('N', 0) . substr($answer, 8, 8)
                . pack('N', 0xffffffff) . substr($answer, 20, 4) . pack('NN', $self->{cmdsn}, $self->{statsn}) . "\0" x 16, '');
            next;
        }
        $self->{statsn} = unpack('x24 N', $answer) + 1 if $opcode != 0x25 || $flag & 1;
        if ($opcode == 0x25) {
            substr($read, unpack('x40 N', $answer), length($text)) = $text;
            return ($status, $read) if $flag & 1;
        } elsif ($opcode == 0x21) {
            return ($status, length($text) ? $text : $read);
        }
    }
    return;
}

# The NAA identifier of a LUN; undef if there is none.
sub naa {
    my ($self, $lun) = @_;
    my ($status, $page) = $self->command($lun, pack('CCCnC', 0x12, 1, 0x83, 252, 0), 252);
    return undef if $status != 0 || (unpack('C', $page) >> 5) != 0;
    my $at = 4;
    while ($at + 4 <= length($page)) {
        my ($set, $type, undef, $length) = unpack("x$at CCCC", $page);
        return 'naa.' . unpack('H*', substr($page, $at + 4, $length)) if ($type & 0x3f) == 3 && ($set & 15) == 1;
        $at += 4 + $length;
    }
    return undef;
}

# Bytes of a LUN.
sub size {
    my ($self, $lun) = @_;
    my ($status, $data) = $self->command($lun, pack('CCx8NCC', 0x9e, 0x10, 32, 0, 0), 32);
    die "READ CAPACITY (16): status $status\n" if $status != 0;
    my ($last, $block) = unpack('Q> N', $data);
    return ($last + 1) * $block;
}

sub read_block {
    my ($self, $lun, $lba) = @_;
    my ($status, $data) = $self->command($lun, pack('CCQ>NCC', 0x88, 0, $lba, 1, 0, 0), 512);
    die "READ (16): status $status\n" if $status != 0;
    return $data;
}

# Writes one block; returns the status.
sub write_block {
    my ($self, $lun, $lba, $text) = @_;
    my ($status) = $self->command($lun, pack('CCQ>NCC', 0x8a, 0, $lba, 1, 0, 0), 512, $text . "\0" x (512 - length($text)));
    return $status;
}

1;
