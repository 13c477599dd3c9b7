import { type ArgumentMetadata, ValidationPipe } from '@nestjs/common';
import { type ValidationError, getMetadataStorage } from 'class-validator';
import { type HttpError, httpError } from './http-error.ts';
import { kindOfJson } from './value-kinds.ts';

/** @param type the class of the body */
function notAMember(name: string, type: NonNullable<ArgumentMetadata['metatype']>): HttpError {
  const rules = getMetadataStorage().getTargetValidationMetadatas(type, '', false, false);
  const members = new Set(rules.map(({ propertyName }) => propertyName));
  return httpError('validation_failed', `${safeName(name)} is unknown: the body has only ${[...members].join(', ')}.`);
}

class BodyValidationPipe extends ValidationPipe {
  /** @throws HttpError `validation_failed` */
  override async transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw httpError('validation_failed', `The body must be a JSON object, but is ${kindOfJson(value)}.`);
    }
    // Nest's pipe silently drops members whose names every object inherits.
    const inherited = Object.keys(value).find((name) => name === 'prototype' || name in Object.prototype);
    if (inherited !== undefined) throw notAMember(inherited, metadata.metatype ?? Object);
    return super.transform(value, metadata);
  }
}

export const bodyValidation = new BodyValidationPipe({
  whitelist: true,
  forbidNonWhitelisted: true,
  transform: true,
  validationError: { target: true },
  validateCustomDecorators: true,
  exceptionFactory(faults) {
    const unknown = faults.find(({ constraints }) => constraints?.['whitelistValidation'] !== undefined);
    if (unknown) return notAMember(unknown.property, unknown.target?.constructor as typeof Object);
    const [fault] = faults as [ValidationError, ...ValidationError[]];
    const { property, constraints = {} } = fault;
    const form = Object.values(constraints).at(-1) ?? ''; // of the rule that the class has first
    const found = kindOfJson(fault.value, 'max' in constraints, 'min' in constraints);
    // class-validator's own message is a sentence that begins with the member's name.
    const wanted = form.startsWith(`${property} `) ? form : `${property} must be ${form}`;
    return httpError('validation_failed', `${wanted}, but is ${found}.`);
  },
});

/** The name of a member, if it is an ordinary one: messages do not repeat the client's text. */
export function safeName(name: string): string {
  return /^[A-Za-z_$][\w$.-]{0,30}$/.test(name) ? name : 'A member';
}
