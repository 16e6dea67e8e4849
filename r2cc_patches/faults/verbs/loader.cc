#include "faults/verbs/loader.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace r2cc::faults {

namespace {

/// The tables of a loaded library by which symbols are found.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;  // GNU's
};

struct Wanted {
  const char* name;
  void* found;
};

// NOLINTBEGIN(performance-no-int-to-ptr): the linker's tables have addresses as numbers.
Tables tablesOf(const dl_phdr_info& library) {
  Tables tables;
  for (int n = 0; n < library.dlpi_phnum; n++) {
    if (library.dlpi_phdr[n].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + library.dlpi_phdr[n].p_vaddr);
    for (; entry->d_tag != DT_NULL; entry++) {
      if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_STRTAB) tables.names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_GNU_HASH) tables.hash = reinterpret_cast<const uint32_t*>(entry->d_un.d_ptr);
    }
  }
  return tables;
}

// NOLINTEND(performance-no-int-to-ptr)
uint32_t hashOf(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; name++) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

/// As the linker laid them out: a bloom filter, then buckets, then chains whose last entry has the lowest bit set.
const ElfW(Sym) * find(const Tables& tables, const char* name) {
  const uint32_t bucketCount = tables.hash[0], firstHashed = tables.hash[1], filterWords = tables.hash[2];
  const uint32_t* const buckets = tables.hash + 4 + filterWords * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* const chains = buckets + bucketCount;
  const uint32_t hash = hashOf(name);
  for (uint32_t n = bucketCount == 0 ? 0 : buckets[hash % bucketCount]; n >= firstHashed && n != 0; n++) {
    const uint32_t here = chains[n - firstHashed];
    const ElfW(Sym) & symbol = tables.symbols[n];
    const bool same = (here | 1U) == (hash | 1U) && std::strcmp(tables.names + symbol.st_name, name) == 0;
    if (same && symbol.st_shndx != SHN_UNDEF) return &symbol;
    if ((here & 1U) != 0) break;
  }
  return nullptr;
}

bool isLibc(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash == nullptr ? path : slash + 1;
  return std::strncmp(name, "libc.so", 7) == 0 || std::strncmp(name, "libdl.so", 8) == 0;
}

int look(dl_phdr_info* library, size_t /*size*/, void* out) {
  auto& wanted = *static_cast<Wanted*>(out);
  if (!isLibc(library->dlpi_name)) return 0;
  const Tables tables = tablesOf(*library);
  if (tables.symbols == nullptr || tables.names == nullptr || tables.hash == nullptr) return 0;
  const ElfW(Sym)* const symbol = find(tables, wanted.name);
  if (symbol == nullptr) return 0;
  wanted.found = reinterpret_cast<void*>(library->dlpi_addr + symbol->st_value);  // NOLINT(performance-no-int-to-ptr)
  return 1;
}

}  // namespace

void* loadersOwn(const char* name) {
  Wanted wanted = {name, nullptr};
  dl_iterate_phdr(look, &wanted);
  return wanted.found;
}

}  // namespace r2cc::faults
