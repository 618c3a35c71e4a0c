/**
 * Streams and events of another copy of the package in this process. On a GPU both copies use one driver, and its handles are of both: they are
 * taken as those of another library are. What a copy simulates has no handle that means something to another.
 */
import { invalidType, stateError } from '../../foundation/base/errors.js'
import { objectOfAnotherCopy } from '../../foundation/base/library-object.js'
import { type Device, deviceOf, driverOf } from '../device.js'
import type { Event } from '../event.js'
import { EventImpl } from './event-impl.js'

/**
 * The device of an object of another copy; undefined for any other value.
 * @param near A device of the driver that its handle is to be used with.
 * @param name What is given, and `expected` what it should be, in the error.
 * @throws ERR_INVALID_ARG_TYPE where the copies do not use the same driver
 */
export function deviceInAnotherCopy(given: unknown, near: Device, name: string, expected: string): Device | undefined {
  const other = objectOfAnotherCopy(given)
  if (other === undefined) return undefined
  const { driver, ordinal } = other
  if (near.driver !== 'cuda' || driver !== 'cuda' || typeof ordinal !== 'number')
    throw invalidType(name, expected, given)
  return deviceOf(driverOf(near), ordinal)
}

export const isEventOfAnotherCopy = (given: unknown): given is Event => objectOfAnotherCopy(given)?.name === 'Event'

/**
 * A wrapper of an event of another copy.
 * @throws as `deviceInAnotherCopy()`; ERR_CLOSED for an event that is closed
 */
export function eventInAnotherCopy(event: Event, near: Device, name: string): EventImpl {
  const device = deviceInAnotherCopy(event, near, name, 'an Event')
  if (event.closed) throw stateError('ERR_CLOSED', `${name} is a closed Event of another copy of cuda-streams`)
  return EventImpl.wrap(event.handle, device, event)
}
