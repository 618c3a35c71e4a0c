/** The catalogue is complete: every member that the package exports, and every option that its declarations have, is in it. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { namesOf } from './call.js'
import { isQuiet, publicMembers, QUIET_OPTIONS, staleReasons } from './members.js'
import { publicOptions } from './option-list.js'
import { allCalls } from './tools.js'

describe('the catalogue', () => {
  const tried = new Set(allCalls.flatMap(({ members }) => members))
  const all = new Set(publicMembers())

  test('has an entry for every public member, or a reason to have none', () => {
    assert.ok(all.size > 250, `only ${all.size} members were found`)
    assert.deepEqual(
      [...all].filter((member) => !tried.has(member) && !isQuiet(member)),
      [],
      'add an entry to a file of tests/catalogue, or a reason to members.ts',
    )
  })

  test('has no entry and no reason for a member that is not there', () => {
    assert.deepEqual(
      [...tried].filter((member) => !all.has(member)),
      [],
    )
    assert.deepEqual(staleReasons(), [])
  })

  const isQuietOption = (option: string): boolean => {
    const [call = ''] = option.split(': ')
    return Object.values(QUIET_OPTIONS).some((names) => names.includes(option) || names.includes(call))
  }
  const options = [...publicOptions()].filter((option) => {
    const [member = ''] = option.split(': ')
    return all.has(member) && (tried.has(member) || !isQuiet(member))
  })
  const triedOptions = allCalls.flatMap(namesOf)

  test('has every option of a public call, or a reason to have it not', () => {
    assert.ok(options.length > 200, `only ${options.length} options were found`)
    const known = new Set(triedOptions)
    assert.deepEqual(
      options.filter((option) => !known.has(option) && !isQuietOption(option)),
      [],
      'add them to the `options` of an entry',
    )
  })

  test('has no option and no reason for one that is not there, and none with both', () => {
    const known = new Set(options.flatMap((option) => [option, option.split(': ')[0]]))
    assert.deepEqual(
      [...triedOptions, ...Object.values(QUIET_OPTIONS).flat()].filter((option) => !known.has(option)),
      [],
    )
    assert.deepEqual(triedOptions.filter(isQuietOption), [])
  })

  test('has no two entries of one name', () => {
    const names = allCalls.map(({ name }) => name)
    assert.deepEqual(
      names.filter((name, index) => names.indexOf(name) !== index),
      [],
    )
  })
})
