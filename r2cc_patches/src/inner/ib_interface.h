// The network interface behind an RDMA device's port: where R2CC's own packets go, and whose carrier is watched.
#pragma once

#include <functional>
#include <string>

namespace r2cc {

/// Whether R2CC can reach others over this interface: up, with an address that is not link-local.
using Usable = std::function<bool(const std::string& interface)>;

/// `folder` is the device's in /sys/class/infiniband. Of the interfaces that the port's GID table names the first one
/// that is usable: with RoCE on a VLAN the first of all is often the interface below, which has no address. Where none
/// is, the first. InfiniBand proper has no entry in that table: then of the interfaces of the PCI function. Empty:
/// none.
std::string ibInterface(const std::string& folder, int port, const Usable& usable);

}  // namespace r2cc
