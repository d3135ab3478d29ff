// SPDX-License-Identifier: Apache-2.0
// Documents in text files, JSON Lines files and CSV files, read in parts.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

/// The place of the documents in a file.
enum class TextForm {
  kText,       // the file is one document
  kJsonLines,  // each line is a JSON object with a document under a key
  kCsv,        // each row but the first, which names the columns, has a document in a column
};
/// A file with documents.
struct TextInput {
  std::string path;  // "-": standard input, which can be read once
  TextForm form = TextForm::kText;
};

/// Returns the form that corresponds to the suffix of a path: JSON Lines for .jsonl and .json, CSV for .csv, otherwise
/// text.
TextForm text_form(const std::string& path);
/// Returns the files that the paths name, in order. A folder stands for its *.txt and *.jsonl files at any depth,
/// sorted by path. Errors: a path that does not exist; a folder without such files, with the suffixes that it has; a
/// .tsv file.
std::vector<TextInput> find_texts(const std::vector<std::string>& paths);
/// For a warning about the files of a folder that find_texts() leaves out: how many there are, their suffixes, and
/// which files are read. Hidden files do not count. Returns "" if there are none, or if the path is not a folder.
std::string skipped_files_text(const std::string& path);

/// Returns the columns of a file: the keys of the first object of JSON Lines, or the first row of CSV. None if the file
/// is a text or empty. Errors: those of read_documents().
std::vector<std::string> columns_of(const TextInput& input);
/// Returns the column of the texts if a user names none, as in Hugging Face's run_clm: `text`, or, if the first input
/// with columns does not have it, the first column of this input.
std::string default_text_column(const std::vector<TextInput>& inputs);

/// Receives a part of a document. `ends_document`: the next part belongs to the next document.
using TakeText = std::function<void(std::string_view text, bool ends_document)>;

/// Reads the documents of a file with little memory. A text file is divided only before blanks, where GPT-2's pattern
/// also splits it, so the tokens do not depend on the parts. A document of JSON Lines or CSV is the text in `column`,
/// in one part. Errors name the path, and the line: not JSON or CSV; no such column, or not a string in it (with all
/// columns); a row of CSV with another number of fields than the first; and those of require_text().
void read_documents(const TextInput& input, const std::string& column, const TakeText& take);
/// Returns all documents of the inputs, except empty ones.
std::vector<std::string> read_all_documents(const std::vector<TextInput>& inputs, const std::string& column);

/// Checks that a file that begins with `start` may be a text. Errors: it is compressed (gzip, zip, zstd, xz), a token
/// file, a Parquet or an Arrow file, with the command that makes a text of it; it is in UTF-16 or UTF-32; a byte of the
/// beginning is 0, unless the suffix is .txt.
void require_text(std::string_view start, const std::string& path);
/// Returns the content of a text file. Errors: those of read_file() and require_text(); a .csv or .tsv file.
std::string read_text_file(const std::string& path);

}  // namespace tessera::data
