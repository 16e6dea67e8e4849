#include "standalone/nccl_version.h"

#include <dlfcn.h>

#include <cstring>
#include <mutex>

namespace r2cc::plugin {
namespace {

constexpr int kNewestTable = 12;
constexpr int kTiesGin = 228;        // to the net: later ones look for it apart
constexpr int kNewestKnown = 23203;  // looked at: docs/reference/nccl-versions.md

std::string text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

int ncclVersionOf(Log inside) {
  void* address = nullptr;
  std::memcpy(&address, &inside, sizeof(address));
  Dl_info where{};
  if (dladdr(address, &where) == 0) return 0;
  void* library = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  // A program that NCCL is linked into has no library of that name.
  void* symbol = dlsym(library != nullptr ? library : RTLD_DEFAULT, "ncclGetVersion");
  ncclResult_t (*getVersion)(int*) = nullptr;
  std::memcpy(&getVersion, &symbol, sizeof(getVersion));
  int version = 0;
  if (getVersion != nullptr && getVersion(&version) != ncclSuccess) version = 0;
  if (library != nullptr) (void)dlclose(library);
  return version;
}

std::string describe(int version, int table) {
  const std::string took = "net table v" + std::to_string(table);
  if (version == 0) return "R2CC: " + took + " of an NCCL that does not say its version";
  std::string line = "R2CC: NCCL " + text(version) + " uses " + took;
  if (version / 100 == kTiesGin) line += ", and ties GIN to its own IB net: it has none with any plugin";
  if (version > kNewestKnown && table == kNewestTable) {
    line += "; R2CC knows NCCL up to " + text(kNewestKnown) +
            ": what newer net tables add, NCCL does without, as with any plugin of v" + std::to_string(table);
  }
  return line;
}

void describeNccl(int table, Log log) {
  static std::once_flag once;
  std::call_once(once, [table, log] {
    if (log == nullptr) return;
    log(NCCL_LOG_INFO, NCCL_INIT | NCCL_NET, "r2cc", 0, "%s", describe(ncclVersionOf(log), table).c_str());
  });
}

}  // namespace r2cc::plugin
