/** What PTX may be written like, as ptxas 13.0 takes it: vectors of registers, constants added to registers, expressions, and what is refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parsePtx } from '../../src/ptx/parser.js'
import { onEveryMachine } from './ptx-text.js'

const HEADER = '.version 8.0\n.target sm_80\n.address_size 64\n'

function kernelOf(body: string): string {
  return `${HEADER}.visible .entry k(.param .u64 out, .param .u32 n) {
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
  ld.param.u64 %rd1, [out];
${body}
  ret;
}`
}

onEveryMachine(
  'vectors of registers are loaded and stored whole, and read by their parts, also by the names of colors',
  kernelOf(`.reg .v4 .b32 q; .reg .v2 .f32 p<3>; .reg .v2 .b32 halves;
  ld.global.v4.b32 q, [%rd1];
  add.u32 q.x, q.y, q.b;
  mov.b32 q.g, q.w;
  mov.b32 q.a, 77;
  st.global.v4.b32 [%rd1+16], q;
  mov.f32 p1.x, 0f3f800000;
  mov.f32 p1.g, 0f40000000;
  mov.v2.f32 p2, {p1.y, p1.x};
  st.global.v2.f32 [%rd1+32], p2;
  mov.b64 %rd2, p1;
  mov.b64 halves, %rd2;
  st.global.v2.u32 [%rd1+40], {halves.y, halves.x};
  mov.v4.u32 {%r1, %r2, %r3, %r4}, %ntid;
  mov.v4.u32 {%r1, %r2, %r3, %r4}, {%r3, %r1, %r4, %r2};
  st.global.v4.u32 [%rd1+48], {%r1, %r2, %r3, %r4};`),
  ({ run }) => {
    const out = new Uint32Array(16)
    out.set([1, 2, 30, 4])
    run('k', { block: [5, 3, 2] }, [out, 0])
    const [one, two] = [0x3f800000, 0x40000000]
    assert.deepEqual([...out.subarray(4)], [32, 4, 30, 77, two, one, two, one, 2, 5, 0, 3])
  },
)

onEveryMachine(
  'parameters and results that are narrow registers, or vectors of registers, are passed whole and with nothing of their neighbours',
  `${HEADER}
.func (.reg .b16 h, .reg .v2 .u16 both, .reg .u32 all) halves(.reg .u16 x, .reg .v4 .u16 v, .reg .s16 y) {
  .reg .u32 a, b;
  cvt.u32.u16 a, x;
  cvt.u32.u16 b, v.z;
  mad.lo.u32 all, b, 1000, a;
  cvt.s32.s16 a, y;
  add.s32 all, all, a;
  mov.b16 h, v.w;
  mov.u16 both.y, v.x;
  mov.u16 both.x, v.y;
  ret;
}
.func (.reg .pred q) isBelow(.reg .pred p, .reg .f32 a, .reg .f32 b) {
  setp.lt.and.f32 q, a, b, p;
  ret;
}
.visible .entry k(.param .u64 out, .param .u32 n) {
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .u16 %h<9>; .reg .v4 .u16 v; .reg .v2 .u16 w; .reg .pred %p<3>;
  ld.param.u64 %rd1, [out];
  mov.u16 v.x, 65535; mov.u16 v.y, 65534; mov.u16 v.z, 3; mov.u16 v.w, 0x8004; mov.u16 %h1, 17; mov.s16 %h2, -5;
  call (%h3, w, %r1), halves, (%h1, v, %h2);
  cvt.u32.u16 %r2, %h3; cvt.u32.u16 %r3, w.x; cvt.u32.u16 %r4, w.y;
  st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
  setp.eq.u32 %p1, %r1, 3012;
  call (%p2), isBelow, (%p1, 0f3f800000, 0f40000000);
  selp.u32 %r5, 1, 0, %p2;
  call (%p2), isBelow, (%p1, 0f40000000, 0f40000000);
  selp.u32 %r6, 1, 0, %p2;
  st.global.v2.u32 [%rd1+16], {%r5, %r6};
  ret;
}`,
  ({ run }) => {
    const out = new Uint32Array(6)
    run('k', {}, [out, 0])
    assert.deepEqual([...out], [3012, 0x8004, 65534, 65535, 1, 0])
  },
  // ptxas takes it, and the assembler in driver 580.159.04 for the H200 ends the process by a segmentation fault.
  false,
)

onEveryMachine(
  'a constant that is added to a register is part of the value, and the register keeps its own',
  kernelOf(`mov.u32 %r1, 10;
  st.global.u32 [%rd1], %r1+1;
  mad.lo.u32 %r2, %r1+1, %r1+2+3, %r1+-4;
  st.global.u32 [%rd1+4], %r2;
  st.global.u32 [%rd1+8], %r1;
  mov.u64 %rd3, %rd1+8;
  st.global.u32 [%rd3+4], %r1+(1 << 2) * 3;`),
  ({ run }) => {
    const out = new Uint32Array(4)
    run('k', {}, [out, 0])
    assert.deepEqual([...out], [11, 11 * 15 + 6, 10, 22])
  },
)

const EXPRESSIONS: readonly (readonly [text: string, value: number])[] = [
  ['(1 << 4) | 3', 19],
  ['(3 + 4) * 2', 14],
  ['5 > 3 ? 7 : 8', 7],
  ['5 == 5', 1],
  ['5 != 5', 0],
  ['5 && 0', 0],
  ['5 >= 5 && 3 < 4 || 0', 1],
  ['7 / 2 * 2 == 6 ? (1 + 1) * 3 : 9', 6],
  ['(5)', 5],
  ['!5', 0],
]

onEveryMachine(
  'constant expressions have the operators of C',
  kernelOf(EXPRESSIONS.map(([text], at) => `mov.u32 %r1, ${text};\nst.global.u32 [%rd1+${4 * at}], %r1;`).join('\n')),
  ({ run }) => {
    const out = new Uint32Array(EXPRESSIONS.length)
    run('k', {}, [out, 0])
    assert.deepEqual(
      [...out],
      EXPRESSIONS.map(([, value]) => value),
    )
  },
)

const REFUSED: readonly (readonly [body: string, why: RegExp])[] = [
  ['.shared .b8 x[-5];', /An array cannot have -5 elements, at line 7/],
  ['.shared .b8 x[0];', /'x' has no elements/],
  ['.local .b8 x[];', /'x' has no elements/],
  ['.shared .align 3 .b8 x[4];', /\.align 3 is no power of two/],
  ['.shared .align 0 .b8 x[4];', /\.align 0 is no power of two/],
  ['.shared .b32 x = 5;', /'x' cannot have a value in \.shared/],
  ['.reg .b32 a, a;', /'a' is declared twice in one block/],
  ['.reg .b32 a; .reg .f32 a;', /'a' is declared twice in one block/],
  ['.reg .b32 %r1;', /'%r1' is declared twice in one block/],
  ['.reg .b32 %r<4>;', /'%r<4>' is declared twice in one block/],
  ['.reg .b32 %s3; .reg .b32 %s<4>;', /'%s<4>' is declared twice in one block/],
  ['.reg .v2 .b32 q; .reg .b32 q;', /'q' is declared twice in one block/],
  ['.reg .b32 n;', /'n' is declared twice in one block/],
  ['.shared .b32 x; .reg .b32 x;', /'x' is declared twice in one block/],
  ['.reg .v2 .pred q;', /A vector has no predicates/],
  ['.reg .v8 .b32 q;', /'\.v8' is no type of a register/],
  ['.reg .bf16 h;', /'\.bf16' is no type of a register/],
  ['.reg .b32 q<-1>;', /Expected a number of registers, found '-'/],
  ['add.u32 %r1+1, %r2, %r3;', /Expected ',', found '\+'/],
]

for (const [body, message] of REFUSED) {
  test(`${body} is refused`, () => {
    assert.throws(() => parsePtx(kernelOf(body)), { code: 'ERR_COMPILATION', message })
  })
}

const REFUSED_OUTSIDE: readonly (readonly [text: string, why: RegExp])[] = [
  ['.global .align 6 .b8 x[4];', /\.align 6 is no power of two/],
  ['.global .b32 x[2] = {1, 2, 3};', /'x' has 8 bytes, and its initial values have 12/],
  ['.global .b8 x[];', /'x' has no elements/],
  ['.visible .entry k(.param .b32 z, .param .b32 z) { ret; }', /'z' is declared twice/],
  ['.func f(.reg .b32 z, .reg .b32 z) { ret; }', /'z' is declared twice/],
]

for (const [text, message] of REFUSED_OUTSIDE) {
  test(`${text} is refused`, () => {
    assert.throws(() => parsePtx(HEADER + text), { code: 'ERR_COMPILATION', message })
  })
}

test('an inner block may declare the names of those around it, and a call any number of parameters without a name', () => {
  const text = kernelOf(`{ .reg .b32 %r<4>; .reg .b32 n; mov.u32 %r1, 1; }
  calls: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b64 _);`)
  assert.equal(parsePtx(text).functions.has('k'), true)
})

onEveryMachine(
  'a block outside of clusters is a cluster of its own: threads that arrive go on, and those that wait see what all had stored before',
  `.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>;
  .shared .b32 s[96];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, s;
  add.u32 %r4, %r3, %r2;
  mov.u32 %r8, 0;
LOOP:
  mad.lo.u32 %r5, %r8, 1000, %r1;
  st.shared.u32 [%r4], %r5;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  sub.u32 %r6, 95, %r1;
  shl.b32 %r6, %r6, 2;
  add.u32 %r6, %r3, %r6;
  ld.shared.u32 %r7, [%r6];
  barrier.cluster.arrive;
  mul.wide.u32 %rd2, %r1, 8;
  mad.wide.u32 %rd2, %r8, 4, %rd2;
  add.u64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2], %r7;
  barrier.cluster.wait;
  add.u32 %r8, %r8, 1;
  setp.lt.u32 %p1, %r8, 2;
  @%p1 bra LOOP;
  ret;
}
.visible .entry ends(.param .u64 out) {
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32;
  @%p1 exit;
  atom.global.add.u32 %r2, [%rd1], 1;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ld.global.u32 %r3, [%rd1];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  st.global.u32 [%rd2], %r3;
  ret;
}`,
  ({ run }) => {
    const out = new Uint32Array(2 * 96)
    run('k', { block: 96 }, [out])
    const expected = Array.from({ length: 96 }, (_, thread) => [95 - thread, 1095 - thread]).flat()
    assert.deepEqual([...out], expected)
    const ended = new Uint32Array(96)
    run('ends', { block: 96 }, [ended])
    assert.deepEqual(new Set(ended.subarray(32)), new Set([64]))
  },
)
