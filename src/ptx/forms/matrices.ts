/** The forms of operations of a warp on matrices. */
import { formList } from './form.js'

const { forms, meeting } = formList()

export const MATRIX_FORMS = forms

const SHAPES = 'm16n16k16|m8n32k16|m32n8k16|m16n16k8|m8n8k4|m8n8k32|m8n8k128'
const LAYOUT = 'row|col'
const WMMA_SPACE = '?space=global|shared|shared::cta'
const WMMA_TYPES = 'f16|bf16|tf32|f32|f64|s8|u8|s4|u4|b1|s32'
meeting(
  `wmma.!load.!m=a|b|c.sync.aligned.layout=${LAYOUT}.shape=${SHAPES}.${WMMA_SPACE}.T=${WMMA_TYPES}`,
  'd:b32 a:address b?:u32',
  'wmma.load',
)
meeting(
  `wmma.!store.!m=d.sync.aligned.layout=${LAYOUT}.shape=${SHAPES}.${WMMA_SPACE}.T=f16|f32|f64|s32`,
  'a:address b:T c?:u32',
  'wmma.store',
)
meeting(
  `wmma.!mma.sync.aligned.A=${LAYOUT}.B=${LAYOUT}.shape=${SHAPES}.D=f16|f32.C=f16|f32.?satfinite`,
  'd:D a:b32 b:b32 c:C',
  'wmma.mma',
)
meeting(
  `wmma.!mma.sync.aligned.A=${LAYOUT}.B=${LAYOUT}.shape=${SHAPES}.?rnd=rn|rz|rm|rp.D=f32|s32|f64.X=bf16|tf32|s8|u8|s4|u4|f64.Y=bf16|tf32|s8|u8|s4|u4|f64.C=f32|s32|f64.?satfinite.?rounded=rn|rz|rm|rp`,
  'd:D a:X b:Y c:C',
  'wmma.mma',
)
meeting(
  `wmma.!mma.op=xor|and.popc.sync.aligned.A=row.B=col.shape=m8n8k128.D=s32.X=b1.Y=b1.C=s32`,
  'd:D a:b32 b:b32 c:C',
  'wmma.mma',
)
const MMA_SHAPES = 'm16n8k4|m16n8k8|m16n8k16|m16n8k32|m16n8k64|m8n8k16|m8n8k32|m8n8k128|m16n8k128|m16n8k256'
const MMA_TYPES = 'f16|bf16|tf32|e4m3|e5m2|s8|u8|s4|u4'
meeting(
  'mma.sync.aligned.shape=m8n8k4|m16n8k4|m16n8k8|m16n8k16.A=row.B=col.?rnd=rn|rz|rm|rp.D=f64.X=f64.Y=f64.C=f64.?rounded=rn|rz|rm|rp',
  'd:D a:X b:Y c:C',
  'mma',
)
for (const types of ['D=f32.X=f16.Y=f16.C=f16|f32', 'D=f16.X=f16.Y=f16.C=f16']) {
  meeting(`mma.sync.aligned.shape=m8n8k4.A=${LAYOUT}.B=${LAYOUT}.${types}`, 'd:D a:X b:Y c:C', 'mma')
}
meeting(
  `mma.sync.aligned.shape=${MMA_SHAPES}.A=row.B=col.?satfinite.D=f16|f32|s32.X=${MMA_TYPES}.Y=${MMA_TYPES}.C=f16|f32|s32`,
  'd:D a:X b:Y c:C',
  'mma',
)
meeting(
  `mma.sync.aligned.shape=${MMA_SHAPES}.A=row.B=col.D=s32.X=b1.Y=b1.C=s32.op=xor|and.popc`,
  'd:D a:b32 b:b32 c:C',
  'mma',
)
meeting(
  'ldmatrix.sync.aligned.shape=m8n8.num=x1|x2|x4.?trans.?space=shared|shared::cta.b16',
  'd:b32 a:address',
  'ldmatrix',
)
meeting(
  'stmatrix.sync.aligned.shape=m8n8.num=x1|x2|x4.?trans.?space=shared|shared::cta.b16',
  'a:address b:b32',
  'stmatrix',
)
meeting('movmatrix.sync.aligned.shape=m8n8.trans.b16', 'd:b32 a:b32', 'movmatrix')
