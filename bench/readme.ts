/**
 * `npm run bench:readme -- bench.json` stores a run in docs/bench, and writes from it the tables of docs/internals/benchmarks.md and of the
 * README, and the pictures; without a file from the run that is stored. A test holds both pages against it.
 */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { picture } from './picture.js'
import { type Result, readResult } from './result.js'
import { root } from './root.js'
import { medianTable, resultTables } from './table.js'

export const STORED = 'docs/bench/run.json'
const PICTURE = STORED.replace('.json', '')
const [BEGIN, END] = ['<!-- the bench begins -->', '<!-- the bench ends -->']

/** What the README shows of it. */
const SHOWN = {
  rows: ['record', 'wait-event', 'stream-create', 'host-function', 'launch-synchronize'],
  names: ['cuda-streams', 'C', 'CuPy', 'PyTorch', 'cuda.core', 'Numba'],
}

function wholeOf(result: Result): string {
  const { machine, contestants, date, command } = result
  const versions = contestants.map(({ name, facts: { version = '', node } }) =>
    name === 'C' ? '' : `${name} ${[version, node && `on Node ${node}`].filter(Boolean).join(' ')}`,
  )
  const rounds = Math.max(...result.rows.map(({ samples }) => Math.max(...Object.values(samples).map((s) => s.length))))
  const facts = [`driver ${machine['driver']}`, machine['CPU'], machine['cores'] && `on cores ${machine['cores']}`]
  const two = result.rows.some(({ group }) => group.startsWith('NCCL')) ? ', NCCL on two of one host' : ''
  const slices = Math.max(0, ...result.rows.map((row) => row.besideC?.[contestants[0]?.name ?? '']?.length ?? 0))
  const besideC =
    slices === 0
      ? ' C had a process of its own.'
      : ` The calls' ratios to C are those of up to ${slices} slices of both, in turns in one process.`
  return `\`${command}\` on one ${machine['GPU']}${two} (${facts.filter(Boolean).join(', ')}; load ${machine['load']}), ${date.slice(0, 10)}: medians of
up to ${rounds} rounds in which all take turns.${besideC} Beside each ratio stands the half of its samples in the middle; a ratio below 1 is faster.
${versions.filter(Boolean).join(', ')}. [Every sample](${STORED.replace('docs/', '../')}).

<picture>
<source media="(max-width: 767px)" srcset="${PICTURE.replace('docs/', '../')}-narrow.svg">
<img alt="Ratios to C and to the fastest Python library" src="${PICTURE.replace('docs/', '../')}.svg">
</picture>

${resultTables(result)}`
}

function shortOf(result: Result): string {
  const { machine, contestants, date } = result
  const node = contestants[0]?.facts['node'] ?? ''
  return `Medians in nanoseconds on one ${machine['GPU']}, Node ${node}, ${date.slice(0, 10)}, all in turns in one run of \`npm run bench\`;
[every row, other Nodes, and how it was measured](docs/internals/benchmarks.md).

${medianTable(result, SHOWN.rows, SHOWN.names)}`
}

/** The pages that show a run. */
export const PAGES = ['docs/internals/benchmarks.md', 'README.md'] as const
const SECTIONS = { 'docs/internals/benchmarks.md': wholeOf, 'README.md': shortOf }

/** The page with this run in it. */
export function pageWith(name: (typeof PAGES)[number], page: string, result: Result): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (from < 0 || to < from) throw new Error(`${name} needs the lines '${BEGIN}' and '${END}'`)
  return `${page.slice(0, from + BEGIN.length)}\n\n${SECTIONS[name](result)}\n\n${page.slice(to)}`
}

/** What a page shows of the bench. */
export function benchOf(page: string): string {
  return page.slice(page.indexOf(BEGIN), page.indexOf(END))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [stored, given] = [join(root, STORED), process.argv[2]]
  const result = readResult(given ?? stored)
  if (given !== undefined && resolve(given) !== stored) copyFileSync(given, stored)
  writeFileSync(join(root, `${PICTURE}.svg`), picture(result))
  writeFileSync(join(root, `${PICTURE}-narrow.svg`), picture(result, true))
  for (const name of PAGES) {
    const path = join(root, name)
    writeFileSync(path, pageWith(name, readFileSync(path, 'utf8'), result))
    console.log(`${name} shows ${STORED}, of ${result.date}`)
  }
}
