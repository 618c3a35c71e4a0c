// A program in JavaScript, whose types TypeScript finds through require().
// @ts-check
const { Device, Stream } = require('cuda-streams')
const { simulate } = require('cuda-streams/sim')

/** @type {import('cuda-streams').Event} */
const event = new Stream({ device: Device.get() }).record()
/** @type {boolean} */
const isDone = event.query()
module.exports = { isDone, devices: simulate().devices }
