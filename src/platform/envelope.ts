// The shapes of an answer: one envelope for `/api`, one for the gateway, one for everything else.
import { type Static, type TSchema, Type as t } from "@sinclair/typebox";
import type { AppError } from "./errors.ts";

export const Problem = t.Object({ code: t.Integer(), message: t.String() });
export const ResultInfo = t.Record(t.String(), t.Unknown());

/** The schema of a successful `/api` answer around `result`. */
export const Ok = <T extends TSchema>(result: T) =>
  t.Object({
    success: t.Literal(true),
    errors: t.Array(Problem),
    messages: t.Array(Problem),
    result,
    result_info: t.Optional(ResultInfo),
  });

export type OkBody<T> = {
  success: true;
  errors: Static<typeof Problem>[];
  messages: Static<typeof Problem>[];
  result: T;
  result_info?: Record<string, unknown>;
};

export function ok<T>(result: T, resultInfo?: Record<string, unknown>): OkBody<T> {
  return { success: true, errors: [], messages: [], result, ...(resultInfo && { result_info: resultInfo }) };
}

export type FailureBody = (error: AppError, requestId: string) => unknown;

export const apiFailure: FailureBody = (error) => ({
  success: false,
  errors: [{ code: error.number, message: error.message }],
  messages: [],
  result: null,
});

/** Clients of the gateway read `error` (singular, a list) and `httpCode`, so both stay as they know them. */
export const gatewayFailure: FailureBody = (error) => ({
  success: false,
  result: [],
  messages: [],
  error: [{ code: error.number, message: error.message }],
  name: "AiGatewayError",
  httpCode: error.status,
  internalCode: error.number,
  message: error.message,
  description: error.message,
});

export const plainFailure: FailureBody = (error, requestId) => ({
  error: { code: error.code, message: error.message, request_id: requestId },
});
