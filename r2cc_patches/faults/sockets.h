// What can be done to a TCP connection from inside its process, without any privilege.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "faults/rules/rules.h"

namespace r2cc::faults {

/// The kernel's own number of a socket, which no other ever has; 0: no socket.
uint64_t cookieOf(int fd);

/// Nothing, where it is no TCP connection.
std::optional<Ends> endsOf(int fd);

/// Where a TCP socket listens: the ends of it that a connection will have there, without a peer.
std::optional<Ends> doorOf(int fd);

/// The ends that this TCP socket will have when it is connected there. Nothing, where that is no TCP.
std::optional<Ends> endsTo(int fd, const sockaddr* to, socklen_t size);

/// Of this process, at the moment.
std::vector<int> openDescriptors();

/// A descriptor of ours for the same socket: what we do to it never hits another that got the number meanwhile.
Fd heldOpen(int fd);

/// Whether something has arrived that the program has not read.
bool hasUnread(int fd);

/// Ends the connection by an RST to the other side. Throws away what has arrived here, which an RST from there would
/// leave to be read. False: the kernel would not.
bool reset(int fd);

/// Nothing that comes is taken any more, acknowledgements included. False, with errno: the kernel would not. Linux has
/// wanted CAP_NET_ADMIN for that since 5d39580f68e6 (2026), in the user namespace of the socket's network namespace.
bool deafen(int fd);
void hear(int fd);

/// Why the kernel lets this process deafen no connection, as errno; 0: it does. Tried on a socket without a connection.
int deafenError();

/// At most so many bytes a second leave. The rate before; nothing, where the kernel would not.
std::optional<uint64_t> pace(int fd, uint64_t bytesPerS);

}  // namespace r2cc::faults
