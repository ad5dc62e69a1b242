// The kernel cache for `smolder cache`: one process looks at what others use. Nothing here loads a code generator.
#include "smolder/jit/cache/cache_file.h"
#include "smolder/jit/cache/explain.h"

#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

using jit::CacheExplanation;
using jit::CacheFile;
using jit::CacheRecord;
using jit::CacheRow;
using jit::CacheStats;
using jit::Detail;
using jit::DiskCache;
using jit::DiskOptions;
using jit::VerifyReport;

nb::bytes bytes_of(const std::string& s) { return nb::bytes(s.data(), s.size()); }

nb::dict record_of(const CacheRecord& r) {
  nb::dict out;
  out["kind"] = r.kind;
  out["key"] = to_hex(r.key);
  out["target"] = bytes_of(r.target);
  out["structure"] = bytes_of(r.structure);
  out["build_ms"] = r.build_ms;
  out["created"] = r.created;
  out["last_use"] = r.last_use;
  out["hits"] = r.hits;
  out["where"] = bytes_of(r.where);
  out["name"] = bytes_of(r.name);
  return out;
}

nb::dict row_of(const CacheRow& row, Detail detail) {
  nb::dict out = record_of(row.record);
  out["id"] = row.id;
  out["bytes"] = row.bytes;
  out["leases"] = row.leases;
  if (detail == Detail::kFull) {
    out["payload"] = bytes_of(row.record.payload);
    out["source"] = bytes_of(row.record.source);
    out["broken"] = row.broken;
  }
  return out;
}

nb::dict stats_dict(const CacheStats& s) {
  nb::dict out;
  out["path"] = s.path;
  out["rows"] = s.rows;
  out["live_bytes"] = s.live_bytes;
  out["file_bytes"] = s.file_bytes;
  out["log_bytes"] = s.log_bytes;
  out["max_bytes"] = s.max_bytes;
  out["leased_rows"] = s.leased_rows;
  out["processes"] = s.processes;
  nb::list kinds;
  for (const jit::Store::KindTotals& t : s.kinds) {
    nb::dict kind;
    kind["kind"] = t.kind;
    kind["rows"] = t.rows;
    kind["bytes"] = t.bytes;
    kind["hits"] = t.hits;
    kind["build_ms"] = t.build_ms;
    kind["saved_ms"] = t.saved_ms;
    kinds.append(kind);
  }
  out["kinds"] = kinds;
  return out;
}

nb::dict report_dict(const VerifyReport& r) {
  nb::dict out;
  out["rows"] = r.rows;
  out["broken"] = r.broken;
  out["dropped"] = r.dropped;
  out["complaints"] = r.complaints;
  out["sound"] = r.sound();
  return out;
}

nb::object explanation_of(CacheFile& file, int64_t id) {
  const std::optional<CacheRow> row = file.row(id);
  SMOLDER_CHECK(row, ValueError, "the kernel cache has no row ", id, " any more");
  const std::optional<CacheExplanation> found = explain_build(file, row->record);
  if (!found) return nb::none();
  nb::dict out;
  out["nearest"] = record_of(found->nearest);
  out["target_differs"] = found->target_differs;
  out["offset"] = found->offset;
  out["wanted"] = found->wanted;
  out["found"] = found->found;
  return out;
}

}  // namespace

void bind_cache(nb::module_& m) {
  nb::class_<CacheFile>(m, "_CacheFile")
      .def(nb::init<const std::string&>())
      .def(
          "rows",
          [](CacheFile& f, const std::string& kind, const std::string& mentions) {
            nb::list out;
            const auto add = [&](CacheRow& row) {
              out.append(row_of(row, Detail::kKeys));
              return true;
            };
            f.for_each(kind, Detail::kKeys, add, mentions);
            return out;
          },
          nb::arg("kind"), nb::arg("mentions") = "")
      .def("row",
           [](CacheFile& f, int64_t id) -> nb::object {
             const std::optional<CacheRow> row = f.row(id);
             return row ? nb::object(row_of(*row, Detail::kFull)) : nb::none();
           })
      .def("stats", [](CacheFile& f) { return stats_dict(f.stats()); })
      .def("verify", [](CacheFile& f) { return report_dict(f.verify()); })
      .def("explain", &explanation_of);
  nb::class_<DiskCache>(m, "_DiskCache")
      .def("__init__", [](DiskCache* self) { new (self) DiskCache(DiskOptions::from_environment()); })
      .def("verify", [](DiskCache& c) { return report_dict(c.verify(true)); })
      .def("prune", &DiskCache::prune, nb::call_guard<WithoutGil>())
      .def("clear", &DiskCache::clear, nb::call_guard<WithoutGil>())
      .def("export_to", &DiskCache::export_to, nb::call_guard<WithoutGil>())
      .def("import_from", &DiskCache::import_from, nb::arg("path"), nb::arg("trust") = false,
           nb::call_guard<WithoutGil>());
  m.def("_cache_options", [] {
    const DiskOptions o = DiskOptions::from_environment();
    nb::dict out;
    out["enabled"] = o.enabled;
    out["path"] = CacheFile::path_of(o);
    out["max_bytes"] = o.max_bytes;
    return out;
  });
}

}  // namespace smolder::python
