#include "faults/build_check.h"

#include <dlfcn.h>
#include <link.h>

#include <vector>

extern const char r2ccBuildId[];  // src/stamp/build_id.cc

namespace r2cc::faults {

namespace {

constexpr char kByHand[] = "made by hand";

int note(dl_phdr_info* info, size_t /*size*/, void* out) {
  const std::string path = info->dlpi_name;
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name.rfind("libr2cc_net", 0) == 0 || name.rfind("libnccl.so", 0) == 0)
    static_cast<std::vector<std::string>*>(out)->push_back(path);
  return 0;
}

/// Empty: it is not ours, as an NCCL that nobody patched.
std::string buildOf(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return "";
  const void* const id = dlsym(library, "r2ccBuildId");
  const std::string found = id == nullptr ? "" : static_cast<const char*>(id);
  dlclose(library);
  return found;
}

}  // namespace

std::string ownBuild() { return r2ccBuildId; }

std::string otherBuildHere() {
  std::vector<std::string> paths;
  dl_iterate_phdr(note, &paths);
  for (const std::string& path : paths) {
    const std::string build = buildOf(path);
    if (build.empty() || build == kByHand || ownBuild() == kByHand || build == ownBuild()) continue;
    std::string why = "libr2cc_faults.so is of build ";
    return why.append(ownBuild()).append(", ").append(path).append(" of build ").append(build);
  }
  return "";
}

}  // namespace r2cc::faults
