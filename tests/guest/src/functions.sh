# expect STATUS COMMAND...: the command must end with this status.
expect() {
    wanted=$1
    shift
    got=0
    "$@" || got=$?
    [ "$got" = "$wanted" ] || { echo "'$*' ended with $got, not $wanted"; return 1; }
}

# generic DISK: the disk's file for commands alone. Nobody looks at the disk when it is closed, as
# udev does with that of a block device, and takes a unit attention away.
generic() {
    generic=/sys/block/$(basename "$(readlink -f "$1")")/device/scsi_generic
    echo "/dev/$(ls "$generic")"
}

# random BLOCKS FILE: so many random blocks of 512 bytes.
random() { dd if=/dev/urandom of="$2" bs=$(($1 * 512)) count=1 iflag=fullblock status=none; }

# take DISK LBA BLOCKS FILE: reads the medium, past every cache.
take() {
    dd if="$1" of="$4" bs=$(($3 * 512)) count=1 skip=$(($2 * 512)) iflag=direct,skip_bytes \
        status=none
}

# put FILE DISK LBA: writes the medium, past every cache.
put() {
    dd if="$1" of="$2" bs="$(stat -c %s "$1")" count=1 seek=$(($3 * 512)) \
        oflag=direct,seek_bytes conv=notrunc status=none
}

# holds DISK LBA BLOCKS FILE: the medium there is what the file is.
holds() { take "$1" "$2" "$3" /tmp/held && cmp /tmp/held "$4"; }

# repeats DISK LBA BLOCKS FILE: each of these blocks is what the file, one block, is.
repeats() {
    take "$1" "$2" "$3" /tmp/held
    cmp -n 512 /tmp/held "$4" && cmp -n $((($3 - 1) * 512)) /tmp/held /tmp/held 512 0
}

# zeroes BLOCKS FILE: so many blocks of zeroes.
zeroes() { dd if=/dev/zero of="$2" bs=$(($1 * 512)) count=1 status=none; }

# traced COMMAND...: runs it and leaves the names of all SCSI commands in /tmp/traced.
traced() {
    tracing=/sys/kernel/tracing
    : >$tracing/trace
    echo 1 >$tracing/events/scsi/scsi_dispatch_cmd_start/enable
    got=0
    "$@" || got=$?
    echo 0 >$tracing/events/scsi/scsi_dispatch_cmd_start/enable
    sed -n 's/.*cmnd=(\([A-Z0-9_]*\).*/\1/p' $tracing/trace >/tmp/traced
    return $got
}

# load FILE OPTIONS...: starts fio with a verified load; FILE.log and FILE.status tell of it.
load() {
    file=$1
    shift
    rm -f "$file".*
    (
        status=0
        fio --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
            --group_reporting "$@" >"$file.log" 2>&1 || status=$?
        echo "$status" >"$file.status"
    ) &
}

# load_runs FILE: it has not ended yet.
load_runs() { [ ! -e "$1.status" ] || { echo "the load is over too early"; cat "$1.log"; false; }; }

# load_is_over FILE: it has ended, however.
load_is_over() { [ -e "$1.status" ]; }

# load_succeeded FILE: it has ended well, and everything was verified.
load_succeeded() {
    cat "$1.log"
    [ "$(cat "$1.status")" = 0 ] && grep -q 'err= 0' "$1.log"
}
