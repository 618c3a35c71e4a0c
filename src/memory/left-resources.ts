/**
 * What is still to be given back, though nothing of the program refers to it any more: modules and events that a graph kept,
 * until its launches are over, and what the driver refused to take back. No call waits for either, so later calls look.
 */
import { atNextTurn } from '#platform'
import type { NativeResource } from '../base/finalization.js'
import { AfterWork } from '../driver/after-work.js'
import type { Driver, OwnEvent } from '../driver/driver.js'
import { letGoOf } from '../streams/capture-record.js'

type Left = AfterWork<readonly NativeResource[]>

const left = new WeakMap<Driver, Left>()

/** Lets go of them when the event's latest record is done, and takes the event over. */
export function letGoAfter(driver: Driver, resources: readonly NativeResource[], after: OwnEvent): void {
  let all = left.get(driver)
  if (all === undefined) {
    all = new AfterWork(driver, (some) => letGoOf([...some], (resource) => resource.letGo()))
    left.set(driver, all)
  }
  all.add(resources, [after])
}

/** Lets go of those whose work is done by now, and tries again what was refused. */
export function sweepLeft(driver: Driver): void {
  retryRefused(driver)
  const all = left.get(driver)
  if (all?.pending === true) all.sweep()
}

const refused = new WeakMap<Driver, Set<() => void>>()

/**
 * Gives something back that has no owner any more. If the driver refuses, that is thrown, and tried again when the event
 * loop turns, and whenever memory is allocated or closed or a capture ends.
 */
export function giveBackUnowned(driver: Driver, giveBack: () => void): void {
  try {
    giveBack()
  } catch (error) {
    if (!isFinding(error)) {
      keepRefused(driver, giveBack)
      atNextTurn(() => retryRefused(driver)).unref()
    }
    throw error
  }
}

/** Never throws: what is refused once more has been reported. */
export function retryRefused(driver: Driver): void {
  const all = refused.get(driver)
  if (all === undefined) return
  refused.delete(driver)
  for (const giveBack of all) {
    try {
      giveBack()
    } catch (error) {
      if (!isFinding(error)) keepRefused(driver, giveBack)
    }
  }
}

function keepRefused(driver: Driver, giveBack: () => void): void {
  const all = refused.get(driver) ?? new Set()
  refused.set(driver, all.add(giveBack))
}

/** A sanitizer throws its finding when the call has been done. */
export function isFinding(error: unknown): boolean {
  return error instanceof Error && Reflect.get(error, 'code') === 'ERR_RACE'
}
