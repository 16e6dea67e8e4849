#!/bin/sh
# Makes a guest of the lab out of what the kernel command line says, then becomes its agent.
# r2cc.index=I r2cc.nics=N r2cc.mtu=M r2cc.share=PATH r2cc.ssh=KEY
mount -t proc proc /proc
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
ln -s /proc/self/fd /dev/fd

index=0 nics=0 mtu=1500 share= ssh=
for word in $(cat /proc/cmdline); do
  case $word in
    r2cc.index=*) index=${word#*=} ;;
    r2cc.nics=*) nics=${word#*=} ;;
    r2cc.mtu=*) mtu=${word#*=} ;;
    r2cc.share=*) share=$(printf %b "${word#*=}") ;;
    r2cc.ssh=*) ssh=${word#*=} ;;
  esac
done
hostname "h$index"
ulimit -l unlimited
ulimit -n 65536

set_to() { [ ! -e "/proc/sys/$1" ] || echo "$2" >"/proc/sys/$1"; }
for each in all default; do
  set_to "net/ipv6/conf/$each/disable_ipv6" 1
done
set_to net/ipv4/conf/all/arp_ignore 1
set_to net/ipv4/conf/all/arp_announce 2
set_to net/ipv4/conf/all/rp_filter 1

# QEMU gives the management NIC last; its name must not begin as the data NICs' do.
host=$((index + 1))
ip link set "eth$nics" name mgmt0
{
  echo "link set lo up"
  echo "addr add 10.250.0.$host/24 dev mgmt0"
  echo "link set mgmt0 mtu $mtu up"
  rail=0
  while [ "$rail" -lt "$nics" ]; do
    echo "addr add 10.$((rail + 1)).0.$host/24 dev eth$rail"
    echo "link set eth$rail mtu $mtu up"
    rail=$((rail + 1))
  done
} | ip -batch -
rail=0
while [ "$rail" -lt "$nics" ]; do
  rdma link add "rxe$rail" type rxe netdev "eth$rail"
  rail=$((rail + 1))
done

# An SSH server with a key of its own, for one user's key. It starts before the agent takes over the lab's clock: who
# comes over SSH finds the guest's own, as on any other machine.
serve_ssh() {
  ip link set "eth$((nics + 1))" name ssh0
  ip addr add "10.251.0.$host/24" dev ssh0
  ip link set ssh0 up
  mkdir -p /run/sshd /etc/ssh
  echo "ssh-ed25519 $ssh" >/run/authorized_keys
  ssh-keygen -q -t ed25519 -N "" -C "" -f /run/ssh_host_key
  printf '%s\n' "ListenAddress 10.251.0.$host" "HostKey /run/ssh_host_key" "AuthorizedKeysFile /run/authorized_keys" \
    "UsePAM no" "PasswordAuthentication no" "KbdInteractiveAuthentication no" "PermitRootLogin prohibit-password" \
    "PrintMotd no" >/run/sshd_config
  /usr/sbin/sshd -f /run/sshd_config
}
if [ -n "$ssh" ]; then
  serve_ssh
fi

if [ -n "$share" ]; then
  mkdir -p "$share"
  mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=mmap share "$share"
fi
exec env -i PATH=/usr/sbin:/usr/bin PYTHONPATH=/usr/lib/r2cc python3 -S -m harness.vmlab.inside.agent
