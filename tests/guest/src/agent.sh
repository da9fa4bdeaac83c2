# Second stage: what a distribution's start-up would do, as far as the tests need it; then a shell
# for the test, at the other end of a TCP connection. When the test goes, so does the machine.
# Where Debian has a program, it is the one that runs; busybox has the rest.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/run/bin
export LC_ALL=C
/bin/busybox mkdir -p /run/bin /run/lock /run/udev /dev/shm
/bin/busybox --install -s /run/bin
mount -t tmpfs tmp /tmp
mount -t tmpfs var /var
mount -t tmpfs mnt /mnt
mkdir -p /var/lib/iscsi /var/lib/misc /var/log /var/tmp /dev/pts
ln -s /run /var/run
ln -s /run/lock /var/lock
cp -a /etc /run/etc
mount --bind /run/etc /etc
hostname guest
echo 'root:x:0:0:root:/:/bin/sh' >/etc/passwd
echo 'root:x:0:' >/etc/group

# The loopback interface stays down, so that the host's is reached under its own addresses: that
# is what the target tells in SendTargets.
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet
ip route add 127.0.0.0/8 via 10.0.2.2 dev eth0
ip route add default via 10.0.2.2 dev eth0

cd /
read -r line </proc/cmdline
port="${line##*agent=}"
port="${port%% *}"
echo "gantry: calling the test at port $port" >/dev/console
nc 127.0.0.1 "$port" -e /bin/dash
echo "gantry: the test is gone" >/dev/console
poweroff -f
