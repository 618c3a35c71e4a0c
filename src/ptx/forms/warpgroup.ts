/** The forms of products of matrices by the four warps of a warpgroup: wgmma. */
import { formList } from './form.js'

const { forms, meeting, nothing } = formList()

export const WARPGROUP_FORMS = forms

const EVERY_EIGHTH = Array.from({ length: 32 }, (_, index) => 8 * (index + 1))
/** Products of integers and bits have fewer numbers of columns. */
const OF_INTEGERS = EVERY_EIGHTH.filter((n) => n <= 32 || n % 16 === 0)

const shapes = (columns: readonly number[], k: number): string => columns.map((n) => `m64n${n}k${k}`).join('|')

/**
 * The operands: d is the sum before and after, a comes from registers or by a descriptor, b by a descriptor, and s says whether there is a sum before;
 * then the signs of a and b, and which of them lie transposed. A sparse matrix has the places of its elements, m, and the threads that have them, i.
 */
for (const isSparse of [false, true]) {
  const name = isSparse ? 'wgmma.!mma_async.!sp.sync.aligned' : 'wgmma.!mma_async.sync.aligned'
  const sums = isSparse ? 'd+:D a:fragment b:b64 m:b32 i:s32 s:pred' : 'd+:D a:fragment b:b64 s:pred'
  const operation = isSparse ? 'warpgroup.sparse' : 'warpgroup.mma'
  const times = isSparse ? 2 : 1
  for (const types of ['D=f16|f32.X=f16.Y=f16', 'D=f32.X=bf16.Y=bf16']) {
    const pattern = `${name}.shape=${shapes(EVERY_EIGHTH, 16 * times)}.${types}`
    meeting(pattern, `${sums} e:s32 f:s32 t:s32 u:s32`, operation)
    meeting(pattern, `${sums} e:s32 f:s32 u:s32`, operation)
  }
  meeting(`${name}.shape=${shapes(EVERY_EIGHTH, 8 * times)}.D=f32.X=tf32.Y=tf32`, `${sums} e:s32 f:s32`, operation)
  meeting(
    `${name}.shape=${shapes(EVERY_EIGHTH, 32 * times)}.D=f16|f32.X=e4m3|e5m2.Y=e4m3|e5m2`,
    `${sums} e:s32 f:s32`,
    operation,
  )
  meeting(`${name}.shape=${shapes(OF_INTEGERS, 32 * times)}.?satfinite.D=s32.X=s8|u8.Y=s8|u8`, sums, operation)
}
meeting(
  `wgmma.!mma_async.sync.aligned.shape=${shapes(OF_INTEGERS, 256)}.D=s32.X=b1.Y=b1.op=and.popc`,
  'd+:D a:fragment b:b64 s:pred',
  'warpgroup.mma',
)
nothing('wgmma.!fence.sync.aligned', '')
nothing('wgmma.!commit_group.sync.aligned', '')
nothing('wgmma.!wait_group.sync.aligned', 'a:s32')
