// What emitted kernels are written with: numbers in lanes, with the operators of scalars.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#define TILE_NAMED(R, head) template <class T, int N> inline Lanes<R, N> head

namespace {
template <class T, int N> struct Lanes { T at[N]; };
template <class T, int N, class F> inline Lanes<T, N> each(F f) {
  Lanes<T, N> r;
  for (int lane = 0; lane < N; ++lane) r.at[lane] = static_cast<T>(f(lane));
  return r;
}
#define TILE_OPERATOR(sign, R)                                                                                         \
  TILE_NAMED(R, operator sign)(const Lanes<T, N> &a, const Lanes<T, N> &b) {                                           \
    return each<R, N>([&](int i) { return a.at[i] sign b.at[i]; });                                                    \
  }
TILE_OPERATOR(+, T) TILE_OPERATOR(-, T) TILE_OPERATOR(*, T) TILE_OPERATOR(/, T) TILE_OPERATOR(%, T) TILE_OPERATOR(&, T)
TILE_OPERATOR(|, T) TILE_OPERATOR(^, T) TILE_OPERATOR(<<, T) TILE_OPERATOR(>>, T) TILE_OPERATOR(==, bool)
TILE_OPERATOR(!=, bool) TILE_OPERATOR(<, bool) TILE_OPERATOR(<=, bool) TILE_OPERATOR(>, bool) TILE_OPERATOR(>=, bool)
#define TILE_FUNCTION(name, ...)                                                                                       \
  TILE_NAMED(T, name)(const Lanes<T, N> &a) { return each<T, N>([&](int i) { return __VA_ARGS__(a.at[i]); }); }
TILE_FUNCTION(operator-, -) TILE_FUNCTION(operator~, ~) TILE_FUNCTION(operator!, !) TILE_FUNCTION(fabs, std::fabs)
TILE_FUNCTION(sqrt, std::sqrt) TILE_FUNCTION(floor, std::floor) TILE_FUNCTION(ceil, std::ceil)
TILE_FUNCTION(rint, std::rint) TILE_FUNCTION(trunc, std::trunc)
TILE_NAMED(T, fmod)(const Lanes<T, N> &a, const Lanes<T, N> &b) {
  return each<T, N>([&](int i) { return std::fmod(a.at[i], b.at[i]); });
}
TILE_NAMED(T, fma)(const Lanes<T, N> &a, const Lanes<T, N> &b, const Lanes<T, N> &c) {
  return each<T, N>([&](int i) { return std::fma(a.at[i], b.at[i], c.at[i]); });
}
TILE_NAMED(T, choose)(const Lanes<bool, N> &c, const Lanes<T, N> &a, const Lanes<T, N> &b) {
  return each<T, N>([&](int i) { return c.at[i] ? a.at[i] : b.at[i]; });
}
template <class R, class T, int N> inline Lanes<R, N> cast(const Lanes<T, N> &a) {
  return each<R, N>([&](int i) { return a.at[i]; });
}
template <class R, class T> inline R bits(const T &a) {
  R r;
  static_assert(sizeof r == sizeof a, "bits are read as a type of the same size");
  std::memcpy(&r, &a, sizeof r);
  return r;
}
TILE_NAMED(T, broadcast)(T a) { return each<T, N>([&](int) { return a; }); }
TILE_NAMED(T, ramp)(T base, T stride) {
  return each<T, N>([&](int i) { return static_cast<uint64_t>(base) + static_cast<uint64_t>(stride) * i; });
}
template <int... I, class T, int N, class... R> inline auto shuffle(const Lanes<T, N> &a, const R &...b) {
  const Lanes<T, N> all[] = {a, b...};
  return Lanes<T, sizeof...(I)>{{all[I / N].at[I % N]...}};
}
template <class T, int N, class M> inline Lanes<T, N> load(const M *from) {
  return each<T, N>([&](int i) { return from[i]; });
}
template <class T, class M, class P, int N> inline Lanes<T, N> gather(const M *from, const Lanes<P, N> &places) {
  return each<T, N>([&](int i) { return from[places.at[i]]; });
}
template <class T, int N, class M> inline void store(M *to, const Lanes<T, N> &a) {
  for (int lane = 0; lane < N; ++lane) to[lane] = a.at[lane];
}
template <class T, class M, class P, int N> inline void scatter(M *to, const Lanes<P, N> &places, const Lanes<T, N> &a) {
  for (int lane = 0; lane < N; ++lane) to[places.at[lane]] = a.at[lane];
}
} // namespace
