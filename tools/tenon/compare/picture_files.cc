#include "tools/tenon/compare/picture_files.h"

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "core/base/files/new_file.h"
#include "core/base/quote.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr double kPixelsPerUnit = 2;
constexpr const char* kLibrary = "librsvg-2.so.2";

// librsvg and what it brings, cairo and GObject, without their headers: nobody who builds Tenon
// needs them. Signatures are those of librsvg 2.52 and cairo 1.16, and part of their stable ABIs.
struct Renderer {
  struct Rectangle {
    double x, y, width, height;
  };
  void* (*handle_from_data)(const uint8_t*, size_t, void**) = nullptr;
  int (*intrinsic_size)(void*, double*, double*) = nullptr;
  int (*render)(void*, void*, const Rectangle*, void**) = nullptr;
  void (*unref)(void*) = nullptr;
  void* (*surface_create)(int, int, int) = nullptr;
  void* (*context_create)(void*) = nullptr;
  int (*write_png)(void*, const char*) = nullptr;
  void (*context_destroy)(void*) = nullptr;
  void (*surface_destroy)(void*) = nullptr;
  bool whole = false;

  Renderer() {
    void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    whole = true;
    // Looks in the libraries that this one needs as well.
    const auto find = [&](const char* name, auto& function) {
      void* const found = ::dlsym(library, name);
      whole = whole && found != nullptr;
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    find("rsvg_handle_new_from_data", handle_from_data);
    find("rsvg_handle_get_intrinsic_size_in_pixels", intrinsic_size);
    find("rsvg_handle_render_document", render);
    find("g_object_unref", unref);
    find("cairo_image_surface_create", surface_create);
    find("cairo_create", context_create);
    find("cairo_surface_write_to_png", write_png);
    find("cairo_destroy", context_destroy);
    find("cairo_surface_destroy", surface_destroy);
  }
};

const Renderer& renderer() {
  static Renderer made;
  return made;
}

Status write_png(const std::string& svg, const std::string& path) {
  const Renderer& with = renderer();
  const auto unref = [&](void* object) { with.unref(object); };
  const std::unique_ptr<void, decltype(unref)> handle(
      with.handle_from_data(reinterpret_cast<const uint8_t*>(svg.data()), svg.size(), nullptr),
      unref);
  double width = 0, height = 0;
  if (!handle || with.intrinsic_size(handle.get(), &width, &height) == 0) {
    return internal("librsvg cannot read " + path_in_quotes(path) + " as it was drawn");
  }
  width *= kPixelsPerUnit;
  height *= kPixelsPerUnit;
  constexpr int kArgb32 = 0;
  void* const surface =
      with.surface_create(kArgb32, static_cast<int>(width), static_cast<int>(height));
  void* const context = with.context_create(surface);
  const Renderer::Rectangle all{0, 0, width, height};
  const bool drawn = with.render(handle.get(), context, &all, nullptr) != 0;
  const bool written = drawn && with.write_png(surface, path.c_str()) == 0;
  with.context_destroy(context);
  with.surface_destroy(surface);
  if (written) return {};
  return failed(path_in_quotes(path) + " cannot be " + (drawn ? "written" : "drawn"));
}

}  // namespace

std::optional<PictureFormat> picture_format(std::string_view word) {
  if (word == "svg") return PictureFormat::svg;
  if (word == "png") return PictureFormat::png;
  if (word == "both") return PictureFormat::both;
  return std::nullopt;
}

Status png_available() {
  if (renderer().whole) return {};
  return unsupported(std::string("PNGs are drawn by librsvg (") + kLibrary +
                     "), which is not here – install librsvg2-2, or take SVG (--pictures svg)");
}

Result<std::vector<std::string>> write_pictures(const std::vector<Picture>& pictures,
                                                const std::string& caption,
                                                const std::string& folder, PictureFormat format) {
  if (format != PictureFormat::svg) TENON_RETURN_IF_ERROR(png_available());
  std::vector<std::string> written;
  if (pictures.empty()) return written;
  std::error_code error;
  fs::create_directories(folder + "/pictures", error);
  if (error) return failed(path_in_quotes(folder + "/pictures") + ": " + error.message());
  for (const Picture& picture : pictures) {
    const std::string base = folder + "/pictures/" + picture.name;
    const std::string svg = svg_file(picture, caption);
    if (format != PictureFormat::png) {
      TENON_RETURN_IF_ERROR(write_file(base + ".svg", {svg}));
      written.push_back(base + ".svg");
    }
    if (format == PictureFormat::svg) continue;
    TENON_RETURN_IF_ERROR(write_png(svg, base + ".png"));
    written.push_back(base + ".png");
  }
  return written;
}

}  // namespace tenon
