#define G __attribute__((address_space(1)))
__attribute__((amdgpu_flat_work_group_size(256,256)))
__kernel void sgemm(const __global float *A, const __global float *B, __global float *C, int n) {
  int x = __builtin_amdgcn_workgroup_id_x() * 64 + (__builtin_amdgcn_workitem_id_x() & 63);
  int y = __builtin_amdgcn_workgroup_id_y() * 4 + (__builtin_amdgcn_workitem_id_x() >> 6);
  float s = 0;
  for (int k = 0; k < n; k++) s = __builtin_fmaf(A[y*n+k], B[k*n+x], s);
  C[y*n+x] = s;
}
typedef half half4 __attribute__((ext_vector_type(4)));
typedef float float16 __attribute__((ext_vector_type(16)));
// C = A * Bt^T ; 32x32 tile per wave
__attribute__((amdgpu_flat_work_group_size(256,256)))
__kernel void hgemm(const __global half *A, const __global half *Bt, __global float *C, int n) {
  int t = __builtin_amdgcn_workitem_id_x();
  int lane = t & 63, wave = t >> 6;
  int row = __builtin_amdgcn_workgroup_id_y() * 64 + (wave >> 1) * 32;
  int col = __builtin_amdgcn_workgroup_id_x() * 64 + (wave & 1) * 32;
  const __global half *a = A + (row + (lane & 31)) * n + (lane >> 5) * 4;
  const __global half *b = Bt + (col + (lane & 31)) * n + (lane >> 5) * 4;
  float16 c = 0;
  for (int k = 0; k < n; k += 8)
    c = __builtin_amdgcn_mfma_f32_32x32x8f16(*(const __global half4*)(a + k), *(const __global half4*)(b + k), c, 0, 0, 0);
  for (int i = 0; i < 16; i++)
    C[(row + 8 * (i / 4) + 4 * (lane >> 5) + i % 4) * n + col + (lane & 31)] = c[i];
}
