// SPDX-License-Identifier: Apache-2.0
// Checks the fuzzers' properties on the corpus and on seeded mutations of it, so that every test run covers them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "harness.h"
#include "support/sanitizers.h"

namespace tessera::fuzz {
namespace {

std::vector<std::string> corpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TESSERA_CORPUS) / folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

// Makes one to four edits, mostly one: removes, repeats or replaces a piece, or inserts a piece of another text.
std::string mutated(std::string text, const std::vector<std::string>& texts, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  constexpr std::string_view kBytes = "{}()[]<>=,:%\"/*-0123456789aeftxT \n";
  for (auto edits = 1 + below(1 + below(4)); edits > 0; --edits) {
    const auto at = below(text.size());
    const auto size = below(std::min<std::size_t>(12, text.size() - at));
    const auto kind = below(4);
    if (kind == 0) text.erase(at, size);
    if (kind == 1) text.insert(at, text.substr(at, size));
    if (kind == 2 && at < text.size()) text[at] = kBytes[below(kBytes.size())];
    if (kind == 3) {
      const auto& other = texts[below(texts.size())];
      text.insert(at, other.substr(below(other.size()), below(40)));
    }
  }
  return text;
}

struct Case {
  const char* reader;
  int mutations;
};
class Fuzz : public ::testing::TestWithParam<Case> {};

TEST_P(Fuzz, TheReaderHasItsPropertiesOnTheCorpusAndItsMutations) {
  const auto [name, mutations] = GetParam();
  const auto check = reader(name).check;
  const auto texts = corpus(name == std::string("values") ? "hlo" : name);
  ASSERT_GE(texts.size(), 3U);
  std::vector<std::string> good;
  for (const auto& text : texts)
    if (check(text)) good.push_back(text);
  ASSERT_FALSE(good.empty());
  std::mt19937 random(17);
  int read = 0;
  for (int i = 0; i < testing::cases_here(mutations); ++i) {
    const auto text = mutated(good[random() % good.size()], texts, random);
    try {
      read += check(text) ? 1 : 0;
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\nfor\n" << text;
    }
  }
  EXPECT_GT(read, testing::cases_here(mutations) / 50)
      << "nearly no mutation was read: they are too wild to test anything";
}
INSTANTIATE_TEST_SUITE_P(Readers, Fuzz,
                         ::testing::Values(Case{"hlo", 2000}, Case{"values", 1000}, Case{"sharding", 6000},
                                           Case{"safetensors", 3000}, Case{"json", 3000}, Case{"bpe", 3000},
                                           Case{"wordpiece", 3000}, Case{"idx", 3000}, Case{"tokens", 3000},
                                           Case{"images", 3000}, Case{"jsonl", 3000}, Case{"manifest", 2000},
                                           Case{"index", 1000}, Case{"flags", 3000}, Case{"graph", 3000}),
                         [](const auto& info) { return std::string(info.param.reader); });

}  // namespace
}  // namespace tessera::fuzz
