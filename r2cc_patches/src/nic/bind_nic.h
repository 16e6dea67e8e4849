// Keeps a TCP socket on its NIC whatever the routing table says: two NICs of one subnet are two paths only so.
#pragma once

#include <sys/socket.h>

#include <string>

namespace r2cc {

/// Before connect() to `to`: the source address, and the device where that can be had (Linux 5.7, or a privilege) and
/// leadsThere(). False when not even the address can be had. `device`: tells whether the device was bound, or needs not
/// be.
bool bindToNic(int fd, const std::string& interface, const sockaddr_storage& source, const sockaddr_storage& to,
               bool* device = nullptr);

/// Whether what leaves by `interface` for `to` arrives: it is in the interface's own subnet, or a route of that
/// interface's leads there. Not where the address is this host's own (that goes over no NIC), nor where the kernel
/// drops what comes back (mayBindDevice).
bool leadsThere(const std::string& interface, const sockaddr_storage& source, const sockaddr_storage& to);

/// Of an accepted socket: what came in by `interface` also goes out by it. False: it came in elsewhere (the neighbours'
/// ARP tables say so), and is left as it is.
bool keepOnNic(int fd, const std::string& interface);

/// Whether another interface of this host has an address in the same subnet.
bool sharesSubnet(const std::string& interface, const sockaddr_storage& own);

/// Whether an address is this host's own.
bool isLocalAddress(const sockaddr_storage& address);

/// False where strict reverse-path filtering (rp_filter=1) would drop what arrives at this interface because another
/// one of its subnet comes first in the routing table.
bool mayBindDevice(const std::string& interface);

/// Tells the subnet where this interface's address is: a question for the lowest address of the subnet makes the kernel
/// broadcast an ARP request from here, from which neighbours that know the address learn its NIC. By default a host's
/// NICs of one subnet all answer for all their addresses, and whoever is first is believed. IPv4 only.
void announceAddress(int udpSocket, unsigned ifindex, const sockaddr_storage& own, int prefixBits);

}  // namespace r2cc
