/** Texts that ptxas takes are taken, and those that it refuses are refused, spelling by spelling: spellings.txt has its verdicts. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { root } from '../helpers/root.js'
import { Machine } from './machine.js'

const HEAD = '.version 8.5\n.target sm_90\n.address_size 64\n'
const TEXTS: Readonly<Record<string, (row: string) => string>> = {
  statements: (body) => `${HEAD}.global .align 16 .b32 g[16];
.const .align 4 .b32 c[4] = {1, 2, 3, 4};
.shared .align 16 .b8 s[256];
.func f(.reg .b32 x) { ret; }
.func (.reg .b32 y) h(.reg .b32 x) { mov.b32 y, x; ret; }
.visible .entry k(.param .u64 out, .param .u32 n) {
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .b16 %h<9>; .reg .pred %p<9>; .local .align 8 .b8 l[16];
  ld.param.u64 %rd1, [out];
${body}
  ret;
}
`,
  declarations: (declaration) => `${HEAD}${declaration}\n.visible .entry k() { ret; }\n`,
  texts: (text) => text.replaceAll('|', '\n'),
}

/** Rows of which the verdict is another one here. A row that is mended leaves the list. */
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  'taken, and refused by ptxas': [
    '.reg .u32 %; mov.u32 %, 1;',
    'brx.idx %r1, T; T: .branchtargets L1; L1:',
    ';',
    ';;',
    'add.u32 %r1, {%r2}, %r3;',
    'add.u32 {%r1}, %r2, %r3;',
    '# line',
    'call %r1, (%r1), P; P: .callprototype _ (.reg .b32 _);',
    'ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r1, [%r5];',
    '.extern .global .u32 a[];',
    '.const .b8 a[65537];',
    '.global .u64 a = k;',
    '.global .u64 a = b; .global .u32 b;',
    '.extern .global .u32 a; .global .u32 a;',
    '.visible .weak .global .u32 a;',
    '.global .u32 a[2+2];',
    '.global .u32 _;',
    '.global .u32 a.b;',
    '.alias a, b;',
    '.func f();',
    '.func f;',
    '.func f(.reg .u32 a); .func f(.reg .u64 a) { ret; }',
    '.func f() { bra L; }',
    '.entry e() .maxnreg { ret; }',
    '.entry e();',
    '.loc 1 1 1',
    '.entry e() { .loc 1 1 1; ret; }',
    '.visible',
    '.weak',
    '.global .samplerref t;',
    '.version 9.1|.target sm_80|.address_size 64|.visible .entry k() { ret; }',
    '.version 99.9|.target sm_80|.address_size 64|.visible .entry k() { ret; }',
    '.version 1.0|.target sm_80|.address_size 64|.visible .entry k() { ret; }',
    '.version 3.0|.target sm_80|.address_size 64|.visible .entry k() { ret; }',
    '.version 8.5|.target sm_90a|.address_size 64|.visible .entry k() { ret; }',
    '.version 8.5|.target sm_81|.address_size 64|.visible .entry k() { ret; }',
    '.version 8.5|.target sm_100|.address_size 64|.visible .entry k() { ret; }',
    '.version 8.5|.target sm_90f|.address_size 64|.visible .entry k() { ret; }',
    '.version 8.5|.target sm_90, debug|.address_size 64|.visible .entry k() { ret; }',
    '.version 8.5|.target sm_90, map_f64_to_f32|.address_size 64|.visible .entry k() { ret; }',
    '.version 8.5|.target sm_90|.address_size 64|.address_size 64|.visible .entry k() { ret; }',
    '.target sm_90|.version 8.5|.visible .entry k() { ret; }',
    '.version 8.5|.version 8.5|.target sm_90|.address_size 64|.visible .entry k() { ret; }',
  ],
  'refused, and taken by ptxas': ['st.global.v2.b32 [%rd1], {%r1, %p1};'],
  'not run, and taken by ptxas': [],
}

function verdictOf(text: string): 'taken' | 'refused' | 'not run' {
  try {
    const module = new Machine().load(text)
    if (module.refusal() !== undefined) return 'refused'
    for (const name of module.kernels) {
      module.code(name)
      if (module.facts(name).whyNotRun !== undefined) return 'not run'
    }
    return 'taken'
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ERR_UNSUPPORTED' ? 'not run' : 'refused'
  }
}

test('PTX is taken and refused as by ptxas', () => {
  const others: Record<string, string[]> = { ...Object.fromEntries(Object.keys(OTHERS).map((name) => [name, []])) }
  let [kind, count] = ['', 0]
  for (const line of readFileSync(join(root, 'tests/ptx/spellings.txt'), 'utf8').split('\n')) {
    if (line.startsWith('== ')) kind = line.slice(3)
    const textOf = TEXTS[kind]
    if (textOf === undefined || !/^[+-] /.test(line)) continue
    count++
    const row = line.slice(2)
    const verdict = verdictOf(textOf(row.replaceAll('\\t', '\t')))
    // A form that ptxas refuses, and the simulator does not run, runs nowhere.
    const expected = line.startsWith('+') ? 'taken' : 'refused'
    if (verdict === expected || (expected === 'refused' && verdict === 'not run')) continue
    others[`${verdict}, and ${expected === 'taken' ? 'taken' : 'refused'} by ptxas`]?.push(row)
  }
  assert.ok(count > 1000, `${count} rows`)
  assert.deepEqual(others, OTHERS)
})
