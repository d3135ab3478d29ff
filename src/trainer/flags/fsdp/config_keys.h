// SPDX-License-Identifier: Apache-2.0
// The keys of an FSDP configuration: their spellings, and those without effect.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/json_object.h"

namespace tessera::trainer {

/// Whether the object has the key, with another value than null.
bool has_value(const JsonObject& json, const std::string& key);
/// Returns the key that spells `name` in the object: `name` itself, or one of the prefixes and `name`. "" if none has a
/// value. Error if two spellings have different values.
std::string spelling_of(const JsonObject& json, const std::string& name,
                        const std::vector<std::string>& prefixes = {"fsdp_"});

/// Keys that are accepted but have no effect.
enum class InertKeys {
  kOfFsdp,      // may have the prefix fsdp_
  kOfXla,       // beside them, without a prefix
  kOfSettings,  // of xla_fsdp_settings
};
std::vector<std::string> names_of(InertKeys group);
/// Appends a line, with the reason, for each key whose value asks for something that Tessera does not do.
void note_inert_keys(const JsonObject& json, InertKeys group, std::vector<std::string>& notes);

}  // namespace tessera::trainer
