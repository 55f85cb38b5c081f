// Reads arrays from .npy files, calls the function, and writes its results as .npy files.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct npy_tensor {
  const char *name;
  const char *kind; // as the descr of a .npy file says it, without the byte order
  size_t item;
  size_t rank;
  const size_t *sizes;
};

/* NPY_TENSORS */

enum { NPY_ALIGNMENT = 64, NPY_LONGEST_HEADER = 1 << 16 };

static void npy_fail(const char *file, const char *message) {
  fprintf(stderr, "%s: %s\n", file, message);
  exit(EXIT_FAILURE);
}

static size_t npy_bytes_of(const struct npy_tensor *tensor) {
  size_t bytes = tensor->item;
  for (size_t axis = 0; axis < tensor->rank; ++axis) bytes *= tensor->sizes[axis];
  return bytes;
}

static void *npy_reserve(size_t bytes) {
  void *memory = aligned_alloc(NPY_ALIGNMENT, (bytes / NPY_ALIGNMENT + 1) * NPY_ALIGNMENT);
  if (memory == NULL) npy_fail("memory", "there is not enough");
  return memory;
}

static char npy_byte_order(const struct npy_tensor *tensor) {
  const uint16_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return tensor->item == 1 || tensor->kind[0] == 'V' ? '|' : first == 1 ? '<' : '>';
}

// Return what follows a key of the header, behind blanks.
static const char *npy_entry(const char *file, const char *header, const char *key) {
  const char *found = strstr(header, key);
  if (found == NULL) npy_fail(file, "the header of this .npy file is broken");
  found += strlen(key);
  return found + strspn(found, " ");
}

static void npy_print_type(FILE *out, const struct npy_tensor *tensor) {
  fprintf(out, "%s of kind %s and shape (", tensor->name, tensor->kind);
  for (size_t axis = 0; axis < tensor->rank; ++axis) {
    fprintf(out, "%s%llu", axis == 0 ? "" : ", ", (unsigned long long)tensor->sizes[axis]);
  }
  fprintf(out, ")\n");
}

static void npy_mismatch(const char *file, const struct npy_tensor *tensor, const char *what) {
  fprintf(stderr, "%s: %s; pass an array for ", file, what);
  npy_print_type(stderr, tensor);
  exit(EXIT_FAILURE);
}

static void npy_check_header(const char *file, const char *header, const struct npy_tensor *tensor) {
  const char *descr = npy_entry(file, header, "'descr':");
  const size_t length = strlen(tensor->kind);
  if (descr[0] != '\'' || descr[1] == '\0' || strncmp(descr + 2, tensor->kind, length) != 0 || descr[2 + length] != '\'') {
    npy_mismatch(file, tensor, "the elements are of another kind");
  }
  if (descr[1] != npy_byte_order(tensor) && descr[1] != '=' && npy_byte_order(tensor) != '|') {
    npy_mismatch(file, tensor, "the elements are in another byte order");
  }
  if (strncmp(npy_entry(file, header, "'fortran_order':"), "False", 5) != 0) {
    npy_mismatch(file, tensor, "the array is stored by columns");
  }
  const char *place = npy_entry(file, header, "'shape':");
  if (*place++ != '(') npy_fail(file, "the header of this .npy file is broken");
  size_t axis = 0;
  for (; *(place += strspn(place, ", ")) != ')'; ++axis) {
    char *end;
    const unsigned long long size = strtoull(place, &end, 10);
    if (end == place) npy_fail(file, "the header of this .npy file is broken");
    if (axis >= tensor->rank || size != tensor->sizes[axis]) npy_mismatch(file, tensor, "the array has another shape");
    place = end;
  }
  if (axis != tensor->rank) npy_mismatch(file, tensor, "the array has another shape");
}

static void *npy_read_array(const char *file, const struct npy_tensor *tensor) {
  unsigned char start[12];
  FILE *in = fopen(file, "rb");
  if (in == NULL) npy_fail(file, "this file cannot be opened");
  if (fread(start, 1, 10, in) != 10 || memcmp(start, "\x93NUMPY", 6) != 0) npy_fail(file, "this is no .npy file");
  size_t length = start[8] | (size_t)start[9] << 8;
  if (start[6] > 1) {
    if (fread(start + 10, 1, 2, in) != 2) npy_fail(file, "this .npy file is too short");
    length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
  }
  if (length >= NPY_LONGEST_HEADER) npy_fail(file, "the header of this .npy file is too long");
  char *header = npy_reserve(length + 1);
  if (fread(header, 1, length, in) != length) npy_fail(file, "this .npy file is too short");
  header[length] = '\0';
  npy_check_header(file, header, tensor);
  free(header);
  void *memory = npy_reserve(npy_bytes_of(tensor));
  if (fread(memory, 1, npy_bytes_of(tensor), in) != npy_bytes_of(tensor)) npy_fail(file, "this .npy file is too short");
  fclose(in);
  return memory;
}

static void npy_write_array(const char *file, const struct npy_tensor *tensor, const void *memory) {
  char header[1024];
  int used = snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                      npy_byte_order(tensor), tensor->kind);
  for (size_t axis = 0; axis < tensor->rank && used < 900; ++axis) {
    used += snprintf(header + used, sizeof header - (size_t)used, "%llu, ", (unsigned long long)tensor->sizes[axis]);
  }
  if (used >= 900) npy_fail(file, "the shape has too many dimensions");
  used += snprintf(header + used, sizeof header - (size_t)used, "), }");
  while ((used + 11) % 64 != 0) header[used++] = ' ';
  header[used++] = '\n';
  const unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(used & 255), (unsigned char)(used >> 8)};
  FILE *out = fopen(file, "wb");
  if (out == NULL) npy_fail(file, "this file cannot be written");
  const size_t length = (size_t)used, bytes = npy_bytes_of(tensor);
  if (fwrite(start, 1, sizeof start, out) != sizeof start || fwrite(header, 1, length, out) != length ||
      fwrite(memory, 1, bytes, out) != bytes || fclose(out) != 0) {
    npy_fail(file, "this file cannot be written completely");
  }
}

int main(int count, char **words) {
  if (count != 1 + NPY_TENSORS) {
    fprintf(stderr, "usage: %s", words[0]);
    for (int number = 0; number < NPY_TENSORS; ++number) fprintf(stderr, " %s.npy", npy_tensors[number].name);
    fprintf(stderr, "\n%d files are read, and the others are written:\n", NPY_INPUTS);
    for (int number = 0; number < NPY_TENSORS; ++number) npy_print_type(stderr, &npy_tensors[number]);
    return 2;
  }
  void *memory[NPY_TENSORS];
  for (int number = 0; number < NPY_TENSORS; ++number) {
    memory[number] = number < NPY_INPUTS ? npy_read_array(words[1 + number], &npy_tensors[number]) : npy_reserve(npy_bytes_of(&npy_tensors[number]));
  }
  void *workspace = npy_reserve(NPY_WORKSPACE_BYTES);
  npy_call(memory, workspace);
  for (int number = NPY_INPUTS; number < NPY_TENSORS; ++number) npy_write_array(words[1 + number], &npy_tensors[number], memory[number]);
  for (int number = 0; number < NPY_TENSORS; ++number) free(memory[number]);
  free(workspace);
  return EXIT_SUCCESS;
}
