// Which opcodes the kernels of PTX files have, and what the simulator says of each: `npm run build && node scripts/ptx-opcodes.mjs FILE.ptx…`, such as
// of another project, compiled by `nvcc --ptx`. Prints for each kernel its instructions, its distinct opcodes and those that the simulator does not
// know, each with the line at which it stands first and the reason. `--all` prints the opcodes that it knows as well, with how often they stand in the
// text. Exits with 1 if an opcode is not known.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { root } from './test-files.mjs'

const { values: options, positionals: files } = parseArgs({
  allowPositionals: true,
  options: { all: { type: 'boolean', default: false } },
})
if (files.length === 0) {
  console.error('node scripts/ptx-opcodes.mjs [--all] FILE.ptx…')
  process.exit(2)
}
const { parsePtx } = await import(join(root, 'dist', 'src', 'ptx', 'parser.js'))
const { decode, whyNotRun } = await import(join(root, 'dist', 'src', 'ptx', 'decoding.js'))

/** The reason why the simulator does not run an instruction; undefined if it does. */
function reasonOf(instruction) {
  try {
    return whyNotRun(decode(instruction))
  } catch (error) {
    return error.message
  }
}

let isMissing = false
for (const file of files) {
  const { functions, version, target } = parsePtx(readFileSync(file, 'utf8'))
  console.log(`${file}: PTX ${version}, ${target}`)
  for (const { name, entry, body } of functions.values()) {
    if (body === undefined) continue
    const known = new Map()
    const missing = new Map()
    for (const instruction of body) {
      const reason = reasonOf(instruction)
      const { opcode } = instruction
      if (reason === undefined) known.set(opcode, (known.get(opcode) ?? 0) + 1)
      else if (!missing.has(opcode)) missing.set(opcode, reason)
    }
    const opcodes = new Set([...known.keys(), ...missing.keys()])
    const all = missing.size === 0 ? 'all known' : `${missing.size} not known`
    console.log(
      `  ${entry ? 'kernel' : 'function'} ${name}: ${body.length} instructions, ${opcodes.size} opcodes, ${all}`,
    )
    for (const reason of missing.values()) console.log(`    ${reason}`)
    if (options.all) for (const [opcode, count] of [...known].sort()) console.log(`    ${opcode} ${count}`)
    isMissing ||= missing.size > 0
  }
}
process.exitCode = isMissing ? 1 : 0
