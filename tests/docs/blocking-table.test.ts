/**
 * What each driver function may wait for is measured, not guessed: each that the library calls has a row in
 * docs/internals/cuda-facts.md, and tests/gpu-facts/blocking.c tries it, or the comment above its signature says that it was not measured.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { SIGNATURES } from '../../src/cuda/libcuda/signatures.js'
import { root } from '../helpers/root.js'

const ledger = Object.keys(SIGNATURES)
const page = readFileSync(join(root, 'docs', 'internals', 'cuda-facts.md'), 'utf8')
const AGAIN = 'run node scripts/blocking-table.mjs'

/** What the script would write, from these measurements or from those that the page has. */
function printed(...file: readonly string[]): string {
  const script = join(root, 'scripts', 'blocking-table.mjs')
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, '--print', ...file], { encoding: 'utf8' })
  assert.equal(status, 0, stderr)
  return stdout
}

/** The cells of each function, by its name; functions with the same cells share a row. */
const rowsOf = (table: string): ReadonlyMap<string, readonly string[]> =>
  new Map(
    table.split('\n').flatMap((line) => {
      const [names = '', ...cells] = line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim())
      if (!/^`\w+`(, `\w+`)*$/.test(names)) return []
      return names.split(', ').map((name) => [name.slice(1, -1), cells] as const)
    }),
  )

/** The comments above the rows of signatures.ts. */
const source = readFileSync(join(root, 'src', 'cuda', 'libcuda', 'signatures.ts'), 'utf8')
const comments = new Map(
  [...source.matchAll(/((?:^ {2}\/\/ .*\n)+) {2}(cu\w+):/gm)].map(([, comment = '', name = '']) => [
    name,
    comment.trim(),
  ]),
)
const isMeasured = (name: string): boolean => comments.get(name)?.startsWith('// Not measured') !== true

/** Such as blocking.c prints. */
const MEASURED = `table	function	variant	semaphore	outcome	result	time	note
about	NVIDIA H200	CUDA 13.0	-	-	-	0	1 of 2 devices used
calls	cuStreamQuery		own>nb	returns	CUDA_ERROR_NOT_READY	1	
calls	cuStreamQuery		nb>nb	returns	CUDA_SUCCESS	1	
calls	cuStreamQuery		null>bl	returns	CUDA_SUCCESS	1	
calls	cuModuleLoadData	PTX	nb>-	waits	CUDA_SUCCESS	300100	
calls	cuModuleLoadData	PTX	null>-	waits	CUDA_SUCCESS	300100	
calls	cuModuleLoadData	cubin	nb>-	returns	CUDA_SUCCESS	90	
calls	cuModuleLoadData	cubin	bl>-	waits	CUDA_SUCCESS	300090	
calls	cuModuleUnload		nb>-	stuck	-	6000000	
calls	cuLaunchKernelEx	warm	own>nb	returns	CUDA_SUCCESS	3	
calls	cuLaunchKernelEx	warm, full queue	own>nb	waits	CUDA_SUCCESS	300000	accepted 9
copies	cuMemcpyAsync	pinned to pinned, 64 B	own>nb	waits	CUDA_SUCCESS	300000	bytes right
copies	cuMemcpyAsync	pinned to pinned, 1 MiB	own>nb	waits	CUDA_SUCCESS	300000	bytes right
copies	cuMemcpyAsync	pinned to pinned, 64 MiB	own>nb	returns	CUDA_SUCCESS	4	bytes wrong
calls	cuEventCreate		nb>-	returns	CUDA_SUCCESS	1	
calls	cuEventElapsedTime		nb>-	returns	CUDA_SUCCESS	1	
copies	cuMemcpy3DAsync_v2	device to device, 64 B, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	device to device, 1 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	device to device, 64 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	pinned to device, 64 B, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	pinned to device, 1 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	pinned to device, 64 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	device to peer, 64 B, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	device to peer, 1 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	device to peer, 64 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	pinned to peer, 64 B, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	pinned to peer, 1 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	pinned to peer, 64 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	device to pinned, 64 B, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	device to pinned, 1 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
copies	cuMemcpy3DAsync_v2	device to pinned, 64 MiB, in eight rows	own>nb	returns	CUDA_SUCCESS	4	bytes right
locks	(nothing)	only the semaphore stands	cuModuleLoadData	held	CUDA_SUCCESS	200000	
locks	(nothing)	only the semaphore stands	cuEventQuery	returns	CUDA_SUCCESS	1	
locks	cuModuleLoadData	PTX	cuModuleLoadData	held	CUDA_SUCCESS	200000	
locks	cuModuleLoadData	PTX	cuEventQuery	held	CUDA_SUCCESS	200000	
locks	cuModuleLoadData	PTX	cuStreamQuery	returns	CUDA_SUCCESS	1	
locks	cuModuleUnload		cuEventQuery	returns	CUDA_SUCCESS	1	
locks	cuMemFree_v2		cuEventQuery	returns	CUDA_SUCCESS	1	
`

describe('what the driver waits for', () => {
  const table = /<!-- calls: .*?-->(.*)<!-- end of calls -->/s.exec(page)?.[1] ?? ''
  const rows = rowsOf(table)

  it('is in docs/internals/cuda-facts.md for each function but those whose signatures say "Not measured"', () => {
    assert.deepEqual([...rows.keys()].sort(), ledger.filter(isMeasured).sort(), AGAIN)
  })

  it('stands there as the script writes it', () => {
    assert.ok(page.includes(printed().trim()), AGAIN)
  })

  it('is tried by blocking.c for each function that is measured', () => {
    const program = readFileSync(join(root, 'tests', 'gpu-facts', 'blocking.c'), 'utf8')
    const tried = new Set([...program.matchAll(/\{"(cu\w+)", "/g)].map(([, name]) => name))
    for (const [, name] of program.matchAll(/add_copy\("(cu\w+)"/g)) tried.add(name)
    assert.deepEqual(
      ledger.filter((name) => isMeasured(name) && !tried.has(name)),
      [],
    )
  })

  it('is read as blocking.c writes it', () => {
    const program = readFileSync(join(root, 'tests', 'gpu-facts', 'blocking.c'), 'utf8')
    assert.ok(program.includes(`"${MEASURED.split('\n')[0]?.replaceAll('\t', '\\t')}\\n`))
  })

  it('leaves no function that was seen to wait without what the library does about that', () => {
    const waits = (cell: string): boolean => /waits|never returns|held/.test(cell)
    const waiting = [...rows].filter(([, cells]) => cells.some(waits)).map(([name]) => name)
    assert.ok(waiting.includes('cuModuleLoadData'))
    assert.deepEqual(
      waiting.filter((name) => !comments.has(name)),
      [],
    )
  })
})

describe('the table of what was measured', () => {
  const folder = mkdtempSync(join(tmpdir(), 'blocking-'))
  const file = join(folder, 'blocking.tsv')
  writeFileSync(file, MEASURED)
  const text = printed(file)
  rmSync(folder, { recursive: true })
  const cells = (name: string): readonly string[] => rowsOf(text).get(name) ?? []

  it('says of each place of the semaphore whether the call returns, and what has no test', () => {
    assert.deepEqual(cells('cuStreamQuery'), ['returns', 'returns', 'returns', 'not measured', '–'])
  })

  it('names the variants that wait where others return, and the places where not at all of them', () => {
    assert.deepEqual(cells('cuModuleLoadData').slice(0, 3), ['–', 'waits: PTX; cubin (bl>-)', 'waits'])
  })

  it('tells what never returned, and what waits where the queue is full', () => {
    assert.equal(cells('cuModuleUnload')[1], 'never returns')
    assert.equal(cells('cuLaunchKernelEx')[0], 'returns; waits where the queue is full')
  })

  it('blames a lock only for what the semaphore alone does not hold up', () => {
    assert.equal(cells('cuModuleLoadData')[4], 'yes: cuEventQuery')
  })

  it('joins functions for which the same was seen', () => {
    assert.ok(text.includes('| `cuEventCreate`, `cuEventElapsedTime` | – | returns |'), text)
  })

  it('joins lengths and ends of a copy for which the same was seen', () => {
    assert.ok(text.includes('| copy, of 64 B, 1 MiB, 64 MiB where no length stands |'), text)
    assert.ok(text.includes('| `cuMemcpyAsync`, 64 B, 1 MiB: pinned to pinned | waits |'), text)
    assert.ok(text.includes('| `cuMemcpyAsync`, 64 MiB: pinned to pinned | returns |'), text)
    const ends = 'device, pinned to device, peer (in eight rows); device to pinned (in eight rows)'
    assert.ok(text.includes(`| \`cuMemcpy3DAsync_v2\`: ${ends} | returns |`), text)
  })

  it('joins calls that hold up the same', () => {
    assert.ok(text.includes('| `cuMemFree_v2`; `cuModuleUnload` | none | 1 of 1 |'), text)
  })
})
