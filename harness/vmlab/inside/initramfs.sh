#!/bin/busybox sh
# Loads the modules and moves on to the real root: the image, read-only, under a layer in memory.
b=/bin/busybox
$b mount -t devtmpfs dev /dev
$b mount -t sysfs sys /sys
$b mount -t proc proc /proc
root=vda
for word in $($b cat /proc/cmdline); do
  case $word in r2cc.root=*) root=${word#*=} ;; esac
done
$b umount /proc
# The modules are those of QEMU's kernel: User Mode Linux's has all it needs.
[ "$root" != vda ] || for name in $($b cat /modules/order); do
  $b insmod "/modules/$name" || echo "r2cc: cannot load $name"
done
$b mount -t squashfs -o ro "/dev/$root" /root || echo "r2cc: cannot mount the image"
$b mount -t tmpfs rw /rw
$b mkdir /rw/upper /rw/work /rw/new
$b mount -t overlay -o lowerdir=/root,upperdir=/rw/upper,workdir=/rw/work root /rw/new
$b mount --move /dev /rw/new/dev
$b mount --move /sys /rw/new/sys
exec $b switch_root /rw/new /usr/sbin/r2cc-init
