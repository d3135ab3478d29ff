// SPDX-License-Identifier: Apache-2.0
#include "compile/build_id.h"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tessera/version.h"

namespace tessera {
namespace {

constexpr std::size_t kNoteAlignment = 4;
std::size_t padded(std::size_t size) { return (size + kNoteAlignment - 1) / kNoteAlignment * kNoteAlignment; }

// Returns the build id among the notes of a segment, or "" if there is none. The note is a header, the name "GNU" and
// the id.
std::string id_in_notes(const std::byte* notes, std::size_t size) {
  for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes + at, sizeof header);
    const std::size_t name = at + sizeof header;
    const std::size_t content = name + padded(header.n_namesz);
    if (content + header.n_descsz > size) break;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0) {
      std::string text;
      for (std::size_t i = 0; i < header.n_descsz; ++i)
        text += fmt::format("{:02x}", std::to_integer<unsigned>(notes[content + i]));
      return text;
    }
    at = content + padded(header.n_descsz);
  }
  return "";
}

// The callback of dl_iterate_phdr, called for each loaded object. It stops at the object that contains this function.
int find_own_object(dl_phdr_info* info, std::size_t, void* out) {
  const auto here = reinterpret_cast<std::uintptr_t>(&find_own_object);
  bool is_own = false;
  std::string id;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) is_own = is_own || (here >= start && here < start + segment.p_memsz);
    if (segment.p_type == PT_NOTE && id.empty())
      id = id_in_notes(reinterpret_cast<const std::byte*>(start), segment.p_memsz);  // NOLINT: where the loader put it
  }
  if (is_own) *static_cast<std::string*>(out) = id;
  return is_own ? 1 : 0;
}

}  // namespace

std::string build_id() {
  std::string id;
  dl_iterate_phdr(find_own_object, &id);
  return id.empty() ? kVersion : fmt::format("{}+{}", kVersion, id);
}

}  // namespace tessera
