// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/dumps/headed_dump.h"

#include <cctype>
#include <sstream>
#include <utility>

#include "ops/base/error.h"
#include "ops/base/local_files.h"
#include "ops/formats/files/save_id.h"

namespace sok {
namespace {

// The header: name of the table, kind, name of the slot, dtype. Texts are right-justified, numbers
// big-endian.
constexpr size_t kTableBytes = 256, kSlotBytes = 32, kNumberBytes = 4;
constexpr size_t kHeaderBytes = kTableBytes + kNumberBytes + kSlotBytes + kNumberBytes;
constexpr const char* kKinds[] = {"keys", "rows", "slot"};
constexpr size_t kNumTypes = 7;
constexpr char kHeadedTitle[] = "sok_compat-dump-2";
constexpr char kEndOfHeadedKeys[] = "-key";

/// Longer texts keep their ends.
std::string Justified(const std::string& text, size_t size) {
  if (text.size() >= size) return text.substr(text.size() - size);
  return std::string(size - text.size(), ' ') + text;
}

std::string BigEndian(size_t number) {
  std::string bytes(kNumberBytes, '\0');
  for (size_t i = kNumberBytes; i-- > 0; number >>= 8) bytes[i] = static_cast<char>(number & 0xff);
  return bytes;
}

size_t FromBigEndian(const std::string& bytes, size_t first) {
  size_t number = 0;
  for (size_t i = 0; i < kNumberBytes; ++i)
    number = number << 8 | static_cast<unsigned char>(bytes[first + i]);
  return number;
}

std::string HeadedTablesIn(const FileSystem& files, const std::string& folder) {
  const std::string end = kEndOfHeadedKeys;
  std::string names;
  for (const std::string& name : files.List(folder)) {
    if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
      names += (names.empty() ? "" : ", ") + name.substr(0, name.size() - end.size());
  }
  return names.empty() ? "none" : names;
}

/// The rest of `line` after its last `sep`, which is cut off.
std::string CutLast(std::string* line, const std::string& sep) {
  const size_t at = line->rfind(sep);
  if (at == std::string::npos) return "";
  std::string rest = line->substr(at + sep.size());
  line->resize(at);
  return rest;
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.size() <= 18 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

HeadedDump::HeadedDump(const std::string& folder, const std::string& name, StoredType key_type,
                       std::vector<DumpedSlot> slots)
    : folder_(folder),
      name_(name),
      stem_(Joined(folder, StemOf(name))),
      key_type_(key_type),
      slots_(std::move(slots)) {}

std::string HeadedDump::StemOf(const std::string& name) {
  std::string stem = name;
  for (char& c : stem) {
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) c = '_';
  }
  return stem;
}

std::string HeadedDump::PlaceOf(const DumpedSlot& slot, const std::string& optimizer) const {
  return stem_ + "-" + optimizer + "-" + StemOf(slot.slot);
}

std::string HeadedDump::Header(Kind kind, const std::string& slot, StoredType type) const {
  return Justified(name_, kTableBytes) + BigEndian(static_cast<size_t>(kind)) +
         Justified(slot, kSlotBytes) + BigEndian(static_cast<size_t>(type));
}

std::vector<NewColumn> HeadedDump::NewColumns() const {
  constexpr StoredType kFloats = StoredType::kFloat32;
  std::vector<NewColumn> columns{
      {stem_ + kEndOfHeadedKeys, Header(Kind::kKeys, "", key_type_), key_type_},
      {stem_ + "-weight", Header(Kind::kRows, "", kFloats), kFloats}};
  for (const DumpedSlot& slot : slots_) {
    columns.push_back(
        {PlaceOf(slot, slot.optimizer), Header(Kind::kSlot, slot.slot, kFloats), kFloats});
  }
  return columns;
}

std::string HeadedDump::TextOfNote(const DumpNote& note, const std::vector<int64_t>&,
                                   int64_t) const {
  std::ostringstream text;
  text << kHeadedTitle << "\nid " << note.id << "\n";
  for (const NewColumn& column : NewColumns()) {
    const NotedFile& file = note.files.at(NameOf(column.place));
    text << NameOf(column.place) << " " << file.num_bytes << " bytes, CRC-32C " << file.sum << "\n";
  }
  text << "end\n";
  return text.str();
}

DumpNote HeadedDump::Parse(const std::string& text) const {
  std::istringstream lines(text);
  std::string title, id, line;
  std::getline(lines, title);
  std::getline(lines, id);
  DumpNote note{id.size() > 3 ? id.substr(3) : "", {}};
  if (title != kHeadedTitle || id.compare(0, 3, "id ") != 0 || !IsSaveId(note.id))
    ThrowNoNote(this->note());
  while (std::getline(lines, line) && line != "end") {
    const std::string sum = CutLast(&line, " bytes, CRC-32C ");
    const std::string num_bytes = CutLast(&line, " ");
    if (!IsNumber(sum) || !IsNumber(num_bytes)) ThrowNoNote(this->note());
    note.files[line] = {std::stoll(num_bytes), static_cast<uint32_t>(std::stoull(sum))};
  }
  if (line != "end") ThrowNoNote(this->note());
  return note;
}

std::vector<StoredColumn> HeadedDump::Columns(const FilesNow& now) const {
  if (!now.files().IsFolder(folder_) && IsLocalPath(folder_))
    Throw(ErrorCode::kNotFound, folder_, " is no folder with dumped tables");
  std::vector<StoredColumn> columns{Column(now, stem_ + kEndOfHeadedKeys, Kind::kKeys),
                                    Column(now, stem_ + "-weight", Kind::kRows)};
  for (const DumpedSlot& slot : slots_) {
    std::string place = PlaceOf(slot, slot.optimizer);
    const std::string other = PlaceOf(slot, slot.other_optimizer);
    if (!now.Has(place) && !slot.other_optimizer.empty() && now.Has(other)) place = other;
    columns.push_back(Column(now, place, Kind::kSlot));
  }
  const int64_t num_keys = columns[0].num_rows;
  for (size_t i = 1; i < columns.size(); ++i) {
    const int64_t count = columns[i].num_rows;
    const int64_t width = num_keys == 0 ? 0 : count / num_keys;
    if (width * num_keys != count || (num_keys > 0 && width < 1)) {
      Throw(ErrorCode::kInvalidArgument, columns[i].path, " has ", count,
            " numbers, which are not rows for ", num_keys, " keys");
    }
    columns[i].num_rows = num_keys;
    columns[i].width = width;
  }
  return columns;
}

/// With the count of its numbers as num_rows.
StoredColumn HeadedDump::Column(const FilesNow& now, const std::string& place, Kind kind) const {
  StoredColumn column;
  column.path = now.PathOf(place);
  if (!now.Has(place)) {
    Throw(ErrorCode::kNotFound, column.path, " is missing, a file of a dump; dumped tables here: ",
          HeadedTablesIn(now.files(), folder_));
  }
  if (IsLocalPath(place)) CheckIsFile(column.path);
  const int64_t num_bytes = now.files().Size(column.path);
  if (now.note() != nullptr) {
    column.noted = &now.note()->files.at(NameOf(place));
    CheckNotedSize(column.path, num_bytes, *column.noted, note());
  }
  std::string header(kHeaderBytes, ' ');
  header.resize(now.files().Open(column.path)->Read(0, kHeaderBytes, header.data()));
  const size_t is = header.size() < kHeaderBytes ? 3 : FromBigEndian(header, kTableBytes);
  const size_t type =
      header.size() < kHeaderBytes ? 0 : FromBigEndian(header, kHeaderBytes - kNumberBytes);
  if (is > 2 || type >= kNumTypes) {
    Throw(ErrorCode::kDataLoss, column.path, " does not begin with a header of ", kHeaderBytes,
          " bytes as SparseOperationKit 2 writes it");
  }
  column.type = static_cast<StoredType>(type);
  if (is != static_cast<size_t>(kind) || IsInteger(column.type) != (kind == Kind::kKeys)) {
    Throw(ErrorCode::kInvalidArgument, column.path, " must hold ", kKinds[static_cast<int>(kind)],
          ", but its header says ", kKinds[is], " of ", DtypeName(column.type));
  }
  column.header_bytes = kHeaderBytes;
  const int64_t array_bytes = num_bytes - column.header_bytes;
  if (array_bytes % BytesOf(column.type) != 0) {
    Throw(ErrorCode::kDataLoss, column.path, " ends within a ", DtypeName(column.type), ": it has ",
          num_bytes, " bytes");
  }
  column.num_rows = array_bytes / BytesOf(column.type);
  return column;
}

}  // namespace sok
