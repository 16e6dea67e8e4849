#!/bin/sh
# Makes a guest of the lab out of what the kernel command line says, then becomes its agent.
# r2cc.index=I r2cc.nics=N r2cc.mtu=M r2cc.share=PATH r2cc.ssh=KEY r2cc.root=DEVICE (of User Mode Linux alone)
mount -t proc proc /proc
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
ln -s /proc/self/fd /dev/fd

index=0 nics=0 mtu=1500 share= ssh= uml=
for word in $(cat /proc/cmdline); do
  case $word in
    r2cc.index=*) index=${word#*=} ;;
    r2cc.nics=*) nics=${word#*=} ;;
    r2cc.mtu=*) mtu=${word#*=} ;;
    r2cc.share=*) share=$(printf %b "${word#*=}") ;;
    r2cc.ssh=*) ssh=${word#*=} ;;
    r2cc.root=*) uml=yes ;;
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

[ -z "$uml" ] || for number in $(seq 0 "$nics"); do
  ip link set "vec$number" name "eth$number" carrier off # until it is up: its state is unknown otherwise
done
# The management NIC comes last; its name must not begin as the data NICs' do.
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
[ -z "$uml" ] || for nic in mgmt0 $(seq -f eth%.0f 0 "$((nics - 1))"); do
  ip link set "$nic" carrier on
done
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
  if [ -n "$uml" ]; then
    mount -t hostfs -o ro share "$share"
  else
    mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=mmap share "$share"
  fi
fi

# User Mode Linux has nobody outside who could take a NIC's carrier. Each line is a NIC and 1 or 0.
move_carriers() {
  stty raw -echo
  while read -r nic up; do
    if echo "$up" >"/sys/class/net/$nic/carrier" 2>/dev/null || ip link set "$nic" carrier "$up"; then
      echo ok
    else
      echo failed
    fi
  done
}
[ -z "$uml" ] || move_carriers <>/dev/ttyS1 >&0 &
exec env -i PATH=/usr/sbin:/usr/bin PYTHONPATH=/usr/lib/r2cc python3 -S -m harness.vmlab.inside.agent
