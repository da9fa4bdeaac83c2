# Client of the array's REST interface (docs/rest.md).
# SPDX-License-Identifier: AGPL-3.0-or-later
#
# A request that failed on its way is sent again until its time is over: GET, PUT, PATCH and DELETE
# because they are idempotent, POST because it carries an Idempotency-Key. The token is read from its
# file for every request, so that it can be changed at any time; it is in no error and in no trace.
package Gantry::Proxmox::Array;

use strict;
use warnings;

use HTTP::Tiny;
use JSON qw(decode_json);
use Time::HiRes ();

use Gantry::Proxmox::Problem;

use constant {
    # Seconds for a request with all its attempts; the lock of a shared storage lasts 60.
    REQUEST_SECONDS => 30,
    # Seconds for one attempt, so that an array that does not answer leaves time for another one.
    ATTEMPT_SECONDS => 10,
    # Seconds before the second attempt; each further pause is twice as long.
    PAUSE_FIRST => 0.1,
    PAUSE_MAX => 3,
    # Elements of a page, the most that the array gives.
    PAGE_MAX => 1000,
    # Largest answer that is read, bytes.
    ANSWER_MAX => 64 << 20,
};

# Called with (method, path, body or undef, status) for every attempt; tests record it.
our $trace;

# url: https://HOST:PORT, or http: to this machine only. token_file: holds a token of the role
# operator. fingerprint: of the server's certificate (SHA-256, hexadecimal, colons allowed), if it is
# not signed by somebody whom the system trusts.
sub new {
    my ($class, %options) = @_;
    my $url = $options{url} =~ s{/\z}{}r;
    if ($url !~ m{\A(https?)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?\z}) {
        die "'$options{url}' is no URL of an array: give one such as https://array.example.org:8443\n";
    }
    my ($scheme, $host) = ($1, $2);
    if ($scheme eq 'http' && $host !~ m/\A(?:127\..*|localhost|\[::1\])\z/) {
        die "'$url': without TLS anybody on the way reads the token: use https\n";
    }
    my %tls;
    if (defined($options{fingerprint})) {
        $tls{SSL_options} = { SSL_fingerprint => 'sha256$' . lc($options{fingerprint} =~ s/://gr) };
    }
    my $http = HTTP::Tiny->new(
        agent => 'gantry-proxmox', max_redirect => 0, max_size => ANSWER_MAX, verify_SSL => 1,
        proxy => undef, http_proxy => undef, https_proxy => undef, %tls,
    );
    return bless({ url => $url, token_file => $options{token_file}, http => $http }, $class);
}

# Sends a request until it is answered. Options: query (hash), body (hash), etag (for If-Match),
# seconds (for all attempts). Returns a hash: data, etag, next (path of the next page), resent
# (whether an earlier attempt may have been carried out). Dies with a Problem, which has 'resent', too.
sub request {
    my ($self, $method, $segments, %options) = @_;
    my $path = '/v1/' . join('/', map { escape($_) } @$segments);
    if (my $query = $options{query}) {
        $path .= '?' . join('&', map { escape($_) . '=' . escape($query->{$_}) } sort keys %$query);
    }
    return $self->send_until_answered($method, $path, %options);
}

sub send_until_answered {
    my ($self, $method, $path, %options) = @_;
    my $deadline = Time::HiRes::time() + ($options{seconds} // REQUEST_SECONDS);
    my $key = $method eq 'POST' ? random_hex(16) : undef;
    my $pause = PAUSE_FIRST;
    my $resent = 0;
    while (1) {
        my $left = $deadline - Time::HiRes::time();
        my $answer = eval { $self->attempt($method, $path, $key, $left, %options) };
        return { %$answer, resent => $resent } if $answer;
        my $error = $@;
        my $wait = retry_pause($error, $pause);
        $error->{resent} = $resent if ref($error);
        die $error if !defined($wait) || Time::HiRes::time() + $wait > $deadline;
        $resent = 1 if !$error->{not_sent};
        Time::HiRes::sleep($wait);
        $pause = $pause * 2 > PAUSE_MAX ? PAUSE_MAX : $pause * 2;
    }
}

# Seconds until another attempt; undef if it cannot succeed.
sub retry_pause {
    my ($error, $pause) = @_;
    return undef if !Gantry::Proxmox::Problem::is($error, 'unreachable', 'key-under-way')
        && !(ref($error) && ($error->{status} // 0) =~ m/\A(?:408|429|503)\z/);
    my $wanted = $error->{retry_after} // 0;
    return $wanted > $pause ? $wanted : $pause;
}

sub attempt {
    my ($self, $method, $path, $key, $left, %options) = @_;
    my %headers = (Authorization => 'Bearer ' . $self->token());
    $headers{'If-Match'} = $options{etag} if defined($options{etag});
    $headers{'Idempotency-Key'} = $key if defined($key);
    my %request = (headers => \%headers);
    if (defined($options{body})) {
        $headers{'Content-Type'} = 'application/json';
        $request{content} = JSON->new->utf8->canonical->encode($options{body});
    }
    $self->{http}->timeout($left < 1 ? 1 : $left < ATTEMPT_SECONDS ? $left : ATTEMPT_SECONDS);
    my $response = $self->{http}->request($method, $self->{url} . $path, \%request);
    $trace->($method, $path, $options{body}, $response->{status}) if $trace;
    return answer_of($response) if $response->{success};
    return $self->refuse($response, $method, $path);
}

sub answer_of {
    my ($response) = @_;
    my ($next) = ($response->{headers}->{link} // '') =~ m/<([^>]*)>;\s*rel="next"/;
    my $data = eval { decode_json($response->{content}) };
    if (!defined($data)) {
        Gantry::Proxmox::Problem->throw(
            type => 'foreign-answer', status => $response->{status},
            detail => 'what answered is no Gantry array: its answer is not JSON',
        );
    }
    return { data => $data, etag => $response->{headers}->{etag}, next => $next };
}

sub refuse {
    my ($self, $response, $method, $path) = @_;
    if ($response->{status} == 599) {
        my $cause = $response->{content} =~ s/\s+\z//r;
        # A certificate that is not trusted stays so.
        my $type = $cause =~ m/certificate|fingerprint|SSL routines/i ? 'not-trusted' : 'unreachable';
        Gantry::Proxmox::Problem->throw(
            type => $type, status => 0, detail => "the array at $self->{url} does not answer: $cause",
            not_sent => $cause =~ m/Could not connect|SSL connection failed/ ? 1 : 0,
        );
    }
    my $problem = eval { decode_json($response->{content}) };
    my $prefix = Gantry::Proxmox::Problem::TYPE_PREFIX;
    if (ref($problem) ne 'HASH' || ($problem->{type} // '') !~ m/\A\Q$prefix\E(.*)\z/) {
        Gantry::Proxmox::Problem->throw(
            type => 'foreign-answer', status => $response->{status},
            detail => "$method $path was answered with status $response->{status} by something that is no Gantry array",
        );
    }
    my $type = $1;
    my $detail = $problem->{detail} // $type;
    $detail = "the array refuses the token ($detail): make another one ('gantry token create NAME --role operator')"
        . " and give it to the storage ('pvesm set STORAGE --password')" if $response->{status} == 401;
    $detail = "the token is not allowed to do that ($detail): the plugin needs one of the role operator" if $type eq 'not-allowed';
    return Gantry::Proxmox::Problem->throw(
        %$problem, type => $type, status => $response->{status}, detail => $detail,
        retry_after => $response->{headers}->{'retry-after'},
    );
}

# All elements of a collection that fit a filter, page by page.
sub list {
    my ($self, $collection, $filter, %options) = @_;
    my $answer = $self->request('GET', [$collection], query => { %$filter, limit => PAGE_MAX }, %options);
    my @all = @{ $answer->{data} };
    while (defined($answer->{next})) {
        $answer = $self->send_until_answered('GET', $answer->{next} =~ s{\Ahttps?://[^/]*}{}r, %options);
        push @all, @{ $answer->{data} };
    }
    return \@all;
}

sub token {
    my ($self) = @_;
    my $file = $self->{token_file};
    my $text;
    if (open(my $handle, '<', $file)) {
        $text = readline($handle);
        close($handle);
    } else {
        die "the token for the array cannot be read from $file: $! (give it anew: 'pvesm set STORAGE --password')\n";
    }
    $text = ($text // '') =~ s/\s+//gr;
    # A header of any other characters would be another request.
    die "$file does not hold a token (give it anew: 'pvesm set STORAGE --password')\n" if $text !~ m/\A[\x21-\x7e]+\z/;
    return $text;
}

sub escape {
    my ($text) = @_;
    return $text =~ s/([^A-Za-z0-9._~-])/sprintf('%%%02X', ord($1))/ger;
}

# Random bytes as hexadecimal digits.
sub random_hex {
    my ($count) = @_;
    open(my $handle, '<:raw', '/dev/urandom') or die "/dev/urandom: $!\n";
    my $read = sysread($handle, my $bytes, $count);
    close($handle);
    die "/dev/urandom gives no random bytes\n" if ($read // 0) != $count;
    return unpack('H*', $bytes);
}

1;
