modprobe ext4
mke2fs -F "$D"
mkdir -p /mnt/s
mount -t ext4 "$D" /mnt/s
cd /mnt/s
mkdir -p bin boot dev proc sys files
cp /boot/vmlinuz-* boot/vmlinuz
extlinux --install boot
cat >boot/extlinux.conf <<'END'
DEFAULT linux
LABEL linux
  KERNEL vmlinuz
  INITRD initramfs
  APPEND console=ttyS0 panic=-1 loglevel=4 nokaslr mitigations=off no_timer_check
END
cp /bin/busybox bin/busybox
cp /usr/bin/fio /usr/bin/sg_inq "$(command -v xfs_repair)" files
md5sum files/* >sums
cat >init <<'END'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
if $b md5sum -c -s /sums; then verdict="all files are right"; else verdict="files are wrong"; fi
echo boot >>/boots
boots=$($b wc -l </boots)
$b sync
$b mount -o remount,ro /
echo "gantry: $verdict, boot $boots"
$b sync
$b poweroff -f
END
chmod 755 init

mkdir -p /tmp/i/bin /tmp/i/dev /tmp/i/root /tmp/i/m
cp /bin/busybox /tmp/i/bin/busybox
for name in virtio_pci virtio_blk crc32c_generic ext4; do
    modprobe --show-depends --ignore-install "$name" | sed -n 's/^insmod //p'
done | sed 's/ *$//' >/tmp/modules
while read -r file; do
    cp "$file" /tmp/i/m/
    basename "$file"
done </tmp/modules >/tmp/i/modules
cat >/tmp/i/init <<'END'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
while read -r name; do $b insmod "/m/$name" 2>/dev/null; done </modules
if [ -b /dev/vda ]; then
    $b mount -t ext4 /dev/vda /root
    $b mount --move /dev /root/dev
    exec $b switch_root /root /init
fi
echo "gantry: there is no disk"
$b poweroff -f
END
chmod 755 /tmp/i/init
(cd /tmp/i && find . | cpio -o -H newc | gzip -1) >/mnt/s/boot/initramfs
rm -r /tmp/i
cd /
umount /mnt/s
