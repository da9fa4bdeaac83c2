#!/bin/busybox sh
# First stage: mounts the system, which the host shares read-only, and goes there.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r name || [ -n "$name" ]; do modprobe "$name"; done </modules
mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 root /root || poweroff -f
mount -t tmpfs run /root/run
cp /agent /root/run/agent
mount --move /proc /root/proc
mount --move /sys /root/sys
mount --move /dev /root/dev
exec switch_root /root /bin/dash /run/agent
