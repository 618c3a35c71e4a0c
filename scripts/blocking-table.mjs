// Writes what the driver's functions wait for into docs/internals/cuda-facts.md: `blocking-table.mjs [blocking.tsv]`. The file is
// what tests/gpu-facts/blocking.c prints on a GPU. Without one the measured cells stay as they are. `--print` prints
// the tables instead.
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const page = join(root, 'docs', 'internals', 'cuda-facts.md')
const NOT_MEASURED = 'not measured'
/** A longer list in one cell is left to the tables below it. */
const LONGEST_LIST = 120
const MOST_HELD = 3

/** Which column tells of which place of the semaphore, and of the call's stream. */
const COLUMNS = [
  ["its stream's own semaphore", /^own/],
  ["another stream's semaphore", /^(nb|bl|graph|pt)>(nb|bl|-)$|^nb>null$/],
  ['by way of the null stream', /^null>|^(bl|pt)>null$/],
  ["another device's semaphore", /^dev1>/],
]
const FIELDS = ['table', 'function', 'variant', 'semaphore', 'outcome', 'result', 'time', 'note']
const FULL_QUEUE = /(^|, )full queue$/
const NEVER = { stuck: 'never returns', crashed: 'ends the process', failed: 'could not be tried' }
/** "SIZE" stands for the length of a copy, so that copies which differ only in that share a row. */
const SIZE = /\b\d+ (?:B|KiB|MiB|GiB)\b/

function parse(text) {
  const [head = '', ...lines] = text.trimEnd().split('\n')
  if (head !== FIELDS.join('\t'))
    throw new Error(`This is not what blocking.c prints: its first line must be ${FIELDS}`)
  const rows = lines.map((line) => {
    const values = line.split('\t')
    return Object.fromEntries(FIELDS.map((field, index) => [field, values[index] ?? '']))
  })
  // They come in whatever order the processes ended, and within one in the order of the tests, which stays.
  const order = (row) => `${row.function}\t${row.variant.replace(SIZE, '')}`
  return rows.sort((one, other) => (order(one) < order(other) ? -1 : order(one) > order(other) ? 1 : 0))
}

const groupBy = (rows, keyOf) => {
  const groups = new Map()
  for (const row of rows) groups.set(keyOf(row), [...(groups.get(keyOf(row)) ?? []), row])
  return groups
}

const unique = (values) => [...new Set(values)]

/** What came of the tests that a cell stands for: "returns", or which of them did what. */
function outcomes(rows, nameOf) {
  if (rows.length === 0) return undefined
  const parts = []
  for (const outcome of unique(rows.map((row) => row.outcome)).sort()) {
    if (outcome === 'returns') continue
    const word = NEVER[outcome] ?? outcome
    const named = []
    for (const [name, tests] of groupBy(rows, nameOf)) {
      const such = tests.filter((test) => test.outcome === outcome)
      if (such.length === 0) continue
      const places = such.length === tests.length ? '' : `(${unique(such.map((test) => test.semaphore)).join(' ')})`
      named.push([name, places].filter((part) => part !== '').join(' '))
    }
    const list = named.join('; ')
    if (rows.every((row) => row.outcome === outcome) || list === '') parts.push(word)
    else parts.push(`${word}: ${list.length > LONGEST_LIST ? `${named.length} of them, see below` : list}`)
  }
  return parts.length === 0 ? 'returns' : parts.join('. ')
}

function cell(rows, places) {
  const here = rows.filter(({ semaphore }) => places.test(semaphore))
  const full = here.filter(({ variant }) => FULL_QUEUE.test(variant))
  const usual = outcomes(
    here.filter((row) => !full.includes(row)),
    ({ variant }) => variant,
  )
  const into = full.some(({ outcome }) => outcome === 'waits') ? '; waits where the queue is full' : ''
  return usual === undefined ? undefined : usual + into
}

const isHeld = ({ outcome }) => outcome === 'held' || outcome === 'stuck'
/** What the semaphore alone holds up is not the lock's doing. */
const heldByGate = (locks) =>
  new Set(locks.filter((row) => row.function === '(nothing)' && isHeld(row)).map(({ semaphore }) => semaphore))

function lockCell(locks, name, waits) {
  const bySemaphore = heldByGate(locks)
  const rows = locks.filter((row) => row.function === name && row.outcome !== 'failed')
  if (rows.length === 0) return waits ? NOT_MEASURED : '–'
  const held = unique(
    rows.filter((row) => isHeld(row) && !bySemaphore.has(row.semaphore)).map(({ semaphore }) => semaphore),
  )
  const all = unique(rows.map(({ semaphore }) => semaphore)).length
  if (held.length === 0) return 'no'
  return held.length > MOST_HELD ? `${held.length} of ${all} calls, see below` : `yes: ${held.join('; ')}`
}

/** Functions of which the same was seen share a row, which stands where the first of them does. */
function callRows(rows) {
  const same = groupBy(rows, ([, ...cells]) => cells.join(' | ')).values()
  return [...same].map((alike) => [alike.map(([name]) => `\`${name}\``).join(', '), ...alike[0].slice(1)])
}

/** Of the functions that were measured, now or before. */
function callsTable(names, rows, before) {
  const head = ['function', ...COLUMNS.map(([title]) => title), 'holds up other threads']
  const locks = rows.filter(({ table }) => table === 'locks')
  const lines = names.flatMap((name) => {
    const own = rows.filter((row) => row.function === name && (row.table === 'calls' || row.table === 'copies'))
    const measured = COLUMNS.map(([, places], index) => {
      const found = cell(own, places)
      if (found !== undefined) return found
      // A call that is on no stream has no semaphore of its own.
      return own.length > 0 && index === 0 ? '–' : NOT_MEASURED
    })
    const waits = measured.some((text) => /waits|never/.test(text))
    const cells = own.length > 0 ? [...measured, lockCell(locks, name, waits)] : before.get(name)
    return cells === undefined ? [] : [[name, ...cells]]
  })
  return markdown(head, callRows(lines))
}

/** Lengths for which the same was seen share a row, and so do copies; at some places of the semaphore not every length is tried. */
function copiesTable(rows) {
  const copies = rows.filter(({ table, variant }) => table === 'copies' && !FULL_QUEUE.test(variant))
  const inOrder = (sizes) => sizes.sort((one, other) => bytesOf(one) - bytesOf(other)).join(', ')
  const all = inOrder(unique(copies.map(({ variant }) => sizeOf(variant))))
  const lines = []
  for (const tests of groupBy(copies, (row) => `${row.function}\t${row.variant.replace(SIZE, 'SIZE')}`).values()) {
    const [{ function: name, variant }] = tests
    const found = []
    for (const [size, same] of groupBy(tests, (row) => sizeOf(row.variant))) {
      const cells = COLUMNS.map(([, places]) =>
        outcomes(
          same.filter((row) => places.test(row.semaphore)),
          () => '',
        ),
      )
      const notes = notesOf(same)
      const alike = found.find(
        (other) =>
          other.notes === notes && cells.every((text, at) => (text ?? other.cells[at]) === (other.cells[at] ?? text)),
      )
      if (alike === undefined) found.push({ sizes: [size], cells, notes })
      else {
        alike.sizes.push(size)
        alike.cells = alike.cells.map((text, at) => text ?? cells[at])
      }
    }
    for (const { sizes, cells, notes } of found) {
      const lengths = inOrder(sizes)
      const title = `\`${name}\`${lengths === all ? '' : `, ${lengths}`}`
      lines.push({ title, variant, cells: [...cells.map((text) => text ?? NOT_MEASURED), notes] })
    }
  }
  const head = [`copy, of ${all} where no length stands`, ...COLUMNS.map(([title]) => title), 'bytes']
  const same = groupBy(lines, ({ title, cells }) => [title, ...cells].join(' | ')).values()
  return markdown(
    head,
    [...same].map((alike) => [`${alike[0].title}: ${endsOf(alike.map(({ variant }) => variant))}`, ...alike[0].cells]),
  )
}

/** "A to B, SIZE, how" of many copies in short: what goes to the same places stands together, and so do places to which the same goes. */
function endsOf(variants) {
  const copies = variants.map((variant) => {
    const [ends, ...how] = variant.split(', ').filter((part) => !SIZE.test(part))
    const [from, to] = ends.split(' to ')
    return { from, to, how: how.length === 0 ? '' : ` (${how.join(', ')})` }
  })
  const sources = [...groupBy(copies, ({ to, how }) => `${to}\t${how}`).values()].map((same) => ({
    ...same[0],
    from: same.map(({ from }) => from).join(', '),
  }))
  return [...groupBy(sources, ({ from, how }) => `${from}\t${how}`).values()]
    .map((same) => `${same[0].from} to ${same.map(({ to }) => to).join(', ')}${same[0].how}`)
    .join('; ')
}

/** What else was seen, and at which places of the semaphore where it was not at all of them. */
function notesOf(tests) {
  const notes = groupBy(tests, ({ result, note }) =>
    /^(CUDA_SUCCESS|-)$/.test(result) ? note.replace('bytes ', '') : result,
  )
  const told = [...notes].filter(([note]) => note !== '')
  const placed = ([note, such]) =>
    note === RIGHT ? note : `${note} (${such.map(({ semaphore }) => semaphore).join(' ')})`
  return told.map(notes.size === 1 ? ([note]) => note : placed).join('; ')
}

const RIGHT = 'right'
const sizeOf = (variant) => SIZE.exec(variant)?.[0] ?? ''
const UNITS = ['B', 'KiB', 'MiB', 'GiB']
function bytesOf(size) {
  const [count, unit] = size.split(' ')
  return Number(count) * 1024 ** UNITS.indexOf(unit)
}

function locksTable(rows) {
  const locks = rows.filter(({ table }) => table === 'locks')
  const bySemaphore = heldByGate(locks)
  const lines = []
  for (const [, tests] of groupBy(locks, (row) => `${row.function}\t${row.variant}`)) {
    const [{ function: name, variant }] = tests
    const tried = tests.filter(({ outcome }) => outcome !== 'failed')
    const alone = name === '(nothing)'
    const held = tried.filter((row) => isHeld(row) && (alone || !bySemaphore.has(row.semaphore)))
    const why = tried.length === 0 ? (tests[0]?.note ?? '') : ''
    lines.push([
      `${alone ? 'no call' : `\`${name}\``}${variant === '' ? '' : `: ${variant}`}`,
      why !== '' ? why : held.map(({ semaphore }) => semaphore).join('; ') || 'none',
      `${tried.length - held.length} of ${tried.length}`,
    ])
  }
  const same = groupBy(lines, ([, ...cells]) => cells.join(' | ')).values()
  return markdown(
    ['while a thread is inside', 'these calls of another thread are held up', 'return'],
    [...same].map((alike) => [alike.map(([inside]) => inside).join('; '), ...alike[0].slice(1)]),
  )
}

const markdown = (head, lines) =>
  [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

/** The cells that were measured before, of each function: all but the names. */
function cellsBefore(table) {
  const before = new Map()
  for (const line of table.split('\n')) {
    const [, names = '', ...cells] = line.split('|').map((text) => text.trim())
    // What stands behind the last bar is a cell too.
    if (cells.length !== COLUMNS.length + 2) continue
    for (const [, name] of names.matchAll(/`(\w+)`/g)) before.set(name, cells.slice(0, -1))
  }
  return before
}

const marks = (name) => [`<!-- ${name}: written by scripts/blocking-table.mjs -->`, `<!-- end of ${name} -->`]

function between(text, name) {
  const [begin, end] = marks(name).map((mark) => text.indexOf(mark))
  if (begin < 0 || end < begin) throw new Error(`${page} has no place for the table of ${name}`)
  return { from: begin + marks(name)[0].length, to: end }
}

function replace(text, name, table) {
  const { from, to } = between(text, name)
  return `${text.slice(0, from)}\n\n${table}\n\n${text.slice(to)}`
}

function ledger() {
  const source = readFileSync(join(root, 'src', 'cuda', 'libcuda', 'signatures.ts'), 'utf8')
  return [...source.slice(0, source.indexOf('} as const')).matchAll(/^ {2}(cu\w+):/gm)].map(([, name]) => name)
}

const [path] = process.argv.slice(2).filter((argument) => argument !== '--print')
let text = readFileSync(page, 'utf8')
const { from, to } = between(text, 'calls')
const rows = path === undefined ? [] : parse(readFileSync(path, 'utf8'))
const tables = { calls: callsTable(ledger(), rows, cellsBefore(text.slice(from, to))) }
const about = rows.find(({ table }) => table === 'about')
if (about !== undefined) tables.machine = `Measured on an ${about.function}, ${about.variant}: ${about.note}.`
if (rows.some(({ table }) => table === 'copies')) tables.copies = copiesTable(rows)
if (rows.some(({ table }) => table === 'locks')) tables.locks = locksTable(rows)
if (process.argv.includes('--print')) {
  for (const table of Object.values(tables)) console.log(`${table}\n`)
} else {
  for (const [name, table] of Object.entries(tables)) text = replace(text, name, table)
  writeFileSync(page, text)
}
