// SPDX-License-Identifier: Apache-2.0
// The tool of minilm.py: tokens and embeddings of the lines of a text.
//
//   sentence_embeddings --model FOLDER --lines LINES.txt --out OUT.safetensors [--tokens_only] [--virtual_ranks N]
//
// FOLDER has config.json, model.safetensors and the vocabulary of a BERT. OUT gets `input_ids` s32[lines, longest], padded,
// `attention_mask`, and `embeddings` f32[lines, hidden]: means over the tokens, of length 1.
#include <algorithm>
#include <cstdio>

#include "tessera/base/argument_parser.h"
#include "tessera/base/files.h"
#include "tessera/base/text.h"
#include "tessera/checkpoint/pretrained.h"
#include "tessera/data/wordpiece_tokenizer.h"
#include "tessera/nn/models/bert.h"
#include "tessera/tensor/safetensors.h"
#include "tessera/tessera.h"

namespace ts = tessera;

namespace {

// Rows of equal length.
struct Tokens {
  ts::Literal ids, mask;
};

Tokens tokenized(const std::string& folder, const std::string& path) {
  const auto tokenizer = ts::data::WordPieceTokenizer::from_file(folder);
  std::vector<std::vector<std::int32_t>> rows;
  std::size_t longest = 0;
  for (const auto& line : ts::split(ts::read_file(path), '\n')) {
    if (line.empty()) continue;
    rows.push_back(tokenizer.encode_text(line).input_ids);
    longest = std::max(longest, rows.back().size());
  }
  std::vector<std::int32_t> ids, mask;
  for (auto& row : rows)
    for (std::size_t i = 0; i < longest; ++i) {
      ids.push_back(i < row.size() ? row[i] : tokenizer.pad_id());
      mask.push_back(i < row.size() ? 1 : 0);
    }
  const ts::Dims dims = {ts::isize(rows), static_cast<std::int64_t>(longest)};
  return {ts::Literal::from<std::int32_t>(dims, ids), ts::Literal::from<std::int32_t>(dims, mask)};
}

ts::Literal embedded(const ts::Runtime& runtime, const std::string& folder, const Tokens& tokens) {
  const ts::Mesh mesh({{"data", runtime.rank_count()}});
  ts::set_default_mesh(mesh);
  const auto model = ts::from_pretrained<ts::nn::BertModel>(folder);
  model->eval();
  const ts::nn::BertInputs inputs{ts::Tensor::from_host(tokens.ids), ts::Tensor::from_host(tokens.mask)};
  ts::mark_sharding(inputs.input_ids, mesh, {"data", {}});
  ts::mark_sharding(inputs.attention_mask, mesh, {"data", {}});
  return model->embed(inputs, {.normalize = true}).to_host();
}

int embed(int argc, char** argv) {
  const ts::Runtime runtime(argc, argv);
  std::int64_t virtual_ranks = 0;  // launch() reads it
  bool tokens_only = false;
  std::string folder, lines, out;
  ts::ArgumentParser parser("sentence_embeddings", "Writes the tokens and embeddings of lines of text.");
  parser.flag("model", folder, "folder with config.json, model.safetensors and vocab.txt")
      .flag("lines", lines, "text file")
      .flag("out", out, "safetensors file")
      .flag("tokens_only", tokens_only, "no embeddings")
      .flag("virtual_ranks", virtual_ranks, "run this many ranks as threads of this process");
  if (!parser.parse(argc, argv)) return 2;
  const Tokens tokens = tokenized(folder, lines);
  ts::SafetensorsFile file;
  file.tensors = {{"input_ids", tokens.ids}, {"attention_mask", tokens.mask}};
  if (!tokens_only) file.tensors.emplace_back("embeddings", embedded(runtime, folder, tokens));
  if (runtime.is_master()) ts::write_safetensors(out, file);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return tessera::launch(argc, argv, embed); }
