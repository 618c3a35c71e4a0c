/** What is read of CUPTI's records, and what its functions take, against NVIDIA's headers where they are installed. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { DRIVER_CALLS, RUNTIME_CALLS } from '../../../../src/tools/timeline/cupti/activities.js'
import { ActivityKind, CUPTI_SIGNATURES } from '../../../../src/tools/timeline/cupti/cupti-library.js'
import { LAYOUTS } from '../../../../src/tools/timeline/cupti/record-layouts.js'
import { findHeader } from '../../../helpers/cuda-toolkit.js'
import { scratchFolder } from '../../../helpers/scratch.js'
import { CHeader } from '../../../libraries/c-header.js'

const found = findHeader('cupti_activity.h')
const skip = typeof found === 'string' ? false : `no cupti_activity.h here: tried ${found.tried.join(', ')}`
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

/** The newest struct of each record, by its name without its number. */
const STRUCTS: Readonly<Record<number, string>> = {
  [ActivityKind.CONCURRENT_KERNEL]: 'CUpti_ActivityKernel',
  [ActivityKind.MEMCPY]: 'CUpti_ActivityMemcpy',
  [ActivityKind.MEMCPY2]: 'CUpti_ActivityMemcpyPtoP',
  [ActivityKind.MEMSET]: 'CUpti_ActivityMemset',
  [ActivityKind.DRIVER]: 'CUpti_ActivityAPI',
  [ActivityKind.RUNTIME]: 'CUpti_ActivityAPI',
}
const FIELDS: Readonly<Record<string, string>> = {
  device: 'deviceId',
  stream: 'streamId',
  correlation: 'correlationId',
  thread: 'threadId',
}

describe('against cupti_activity.h', { skip }, () => {
  if (typeof found !== 'string') return
  console.log(found)
  const folder = dirname(found)
  const text = ['activity', 'callbacks', 'version', 'result']
    .map((name) => readFileSync(join(folder, `cupti_${name}.h`), 'utf8'))
    .join('\n')
  const header = new CHeader(found)

  it('each function takes what it is given', () => {
    const typeOf = (parameter: string): string =>
      parameter
        .trim()
        .replace(/\w+$/, '')
        .replaceAll(/\bconst\b|\s/g, '')
    for (const [name, parameters] of Object.entries(CUPTI_SIGNATURES)) {
      const [, list = ''] = new RegExp(`CUptiResult CUPTIAPI ${name}\\s*\\(([^)]*)\\)`).exec(text) ?? []
      // A callback's number is a uint32_t.
      const written = list.split(',').map((parameter) => typeOf(parameter).replace('CUpti_CallbackId', 'uint32_t'))
      assert.deepEqual(parameters.split(', ').map(typeOf), written, name)
    }
  })

  it('each kind has its number', () => {
    for (const [name, kind] of Object.entries(ActivityKind)) {
      assert.equal(header.enumerator(`CUPTI_ACTIVITY_KIND_${name}`), kind, name)
    }
  })

  it('the calls that are recorded queue work', () => {
    for (const [file, prefix, calls] of [
      ['driver', 'cu', DRIVER_CALLS],
      ['runtime', 'cuda', RUNTIME_CALLS],
    ] as const) {
      const ids = readFileSync(join(folder, `cupti_${file}_cbid.h`), 'utf8')
      const byNumber = new Map(
        [...ids.matchAll(/_TRACE_CBID_(\w+)\s*=\s*(\d+)/g)].map(([, name = '', number]) => [Number(number), name]),
      )
      const named = [...calls].flatMap((number) => byNumber.get(number) ?? [])
      const queues = new RegExp(`^${prefix}(Launch|GraphLaunch|Memcpy|Memset)`)
      assert.deepEqual(
        named.filter((name) => !queues.test(name) || /HostFunc/.test(name)),
        [],
      )
      assert.ok(named.length > calls.size / 2)
    }
  })

  it('each field is where it is read', (context) => {
    const lines = Object.entries(LAYOUTS).flatMap(([kind, layout]) => {
      const base = STRUCTS[Number(kind)] ?? ''
      const versions = [...text.matchAll(new RegExp(`^} (${base}\\d*);`, 'gm'))].map(([, name = '']) => name)
      const newest = versions.sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1)
      assert.ok(newest !== undefined, base)
      return Object.entries(layout)
        .filter(([, offset]) => typeof offset === 'number')
        .map(([field, offset]) => [newest, FIELDS[field] ?? field, offset] as const)
    })
    const program = join(scratchFolder('cupti'), 'layout')
    const asserts = lines.map(
      ([struct, field, offset]) => `_Static_assert(offsetof(${struct}, ${field}) == ${offset}, "${struct} ${field}");`,
    )
    writeFileSync(
      `${program}.c`,
      `#include <stddef.h>\n#include <stdint.h>\n#include <cuda.h>\n#include <cupti_activity.h>\n${asserts.join('\n')}`,
    )
    const compiled = spawnSync('cc', ['-fsyntax-only', '-w', `-I${folder}`, `${program}.c`], { encoding: 'utf8' })
    if (compiled.error !== undefined || /fatal error: .*No such file/.test(compiled.stderr)) {
      context.skip(`no C compiler here, or not all headers: ${compiled.stderr.split('\n')[0]}`)
      return
    }
    assert.equal(compiled.status, 0, compiled.stderr)
  })
})
